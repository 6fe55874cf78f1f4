# SPDX-License-Identifier: Apache-2.0
"""The release before beside this one, as during an upgrade: $DLOCK_OLD is its binary. Each is
holder, waiter, and releaser of a lock of the other."""
import json, os, re, unittest
import parts

old = os.environ.get("DLOCK_OLD")
golden = os.path.dirname(__file__) + "/golden"


@unittest.skipUnless(old, "DLOCK_OLD names no binary of the release before")
class Upgrade(parts.Case):
    def each(self, question):
        for kind in "file", "redis", "mysql", "zookeeper":
            url = self.file if kind == "file" else parts.fixture(kind).fresh(self._testMethodName)
            for n, (one, other) in enumerate(((old, parts.DLOCK), (parts.DLOCK, old))):
                with self.subTest(kind, first="old" if n == 0 else "new"):
                    question(["-b", url, "--key", f"k{n}"], one, other)
                    self.alone()
                    self.forget_runs()

    def begin(self, dlock, lock, then):  # without --status, which not every release knows
        return parts.Run(self, *lock, "--", *self.judged("echo $DLOCK_TOKEN >>tokens; " + then),
                         before=[dlock], dlock="run")

    def test_waiter(self):
        """A holder of one, a waiter of the other: it sees who holds, waits, and is next, with a
        larger token."""

        def question(lock, one, other):
            held = self.begin(one, lock, "read line <fifo; exit 7")
            held.until("the job runs", self.runs)
            self.tell("run", *lock, "-n", "--", "true", dlock=other, wanted=[75])
            self.assertIn("held", self.tell("inspect", *lock[:2], lock[3], dlock=other))
            waiter = self.begin(other, lock, "exit 0")
            waiter.until("it waits", lambda: re.search(
                r'"waiters":\s*\[\s*\{', self.tell("inspect", *lock[:2], "-J", lock[3])))
            with open(self.dir + "/fifo", "w") as end:
                end.write("\n")
            held.end(7)
            waiter.end(0)
            tokens = [int(token) for token in parts.read(self.dir + "/tokens").split()]
            self.assertLess(tokens[-2], tokens[-1])
            self.tell("inspect", *lock[:2], lock[3], dlock=one)

        os.mkfifo(self.dir + "/fifo")
        self.each(question)

    def test_handle(self):
        """A lease that one took: the other checks, renews, runs under and releases it."""

        def question(lock, one, other):
            if lock[1].startswith("zookeeper") and other == old:
                return  # dlock-zookeeper(7): handles do not go back to 0.1.0
            handle = self.tell("acquire", *lock, "--ttl", "1m", dlock=one).strip()
            for verb in "check", "renew":
                self.tell(verb, *lock, "--handle", handle, dlock=other)
            self.tell("run", *lock, "--handle", handle, "--", "sh", "-c", "exit 7", dlock=other,
                      wanted=[7])
            self.tell("run", *lock, "-n", "--", "true", dlock=one, wanted=[75])
            self.tell("release", *lock, "--handle", handle, dlock=other)
            self.tell("run", *lock, "-n", "--", "true", dlock=one)

        self.each(question)

    def test_once_per(self):
        def question(lock, one, other):
            if lock[1].startswith("zookeeper"):
                return
            self.tell("run", *lock, "--once-per", "1h", "--", "true", dlock=one)
            self.tell("run", *lock, "--once-per", "1h", "--", "true", dlock=other, wanted=[75])

        self.each(question)


class Golden(parts.Case):
    """What releases have left in a store, in golden/VERSION, for ten years: key k is free, with a
    last run and a start; key h is held by a lease whose handle is in STORE.handle."""

    def each(self, kind, put):
        for version in sorted(os.listdir(golden)):
            with self.subTest(version):
                at = f"{golden}/{version}/{kind}"
                url = put(at, version.replace(".", "_"))
                said = self.tell("inspect", "-b", url, "k")
                self.assertRegex(said, r"state +free\n")
                self.assertRegex(said, r"\nlast run db1:.*exit status 0\n.*--once-per")
                self.tell("run", "-b", url, "--key", "k", "--once-per", "3650d", "-n", "--", "true",
                          wanted=[75])
                token = int(self.tell("run", "-b", url, "--key", "k", "--", "sh", "-c",
                                      "echo $DLOCK_TOKEN"))
                self.assertGreater(token, int(re.search(r"token +(\d+)", said)[1]))
                if not os.path.exists(at + ".handle"):  # times of file: are those of one boot
                    continue
                lock, handle = ["-b", url, "--key", "h"], parts.read(at + ".handle").strip()
                self.tell("run", *lock, "-n", "--", "true", wanted=[75])
                for verb in "check", "renew", "release":
                    self.tell(verb, *lock, "--handle", handle)
                self.tell("run", *lock, "-n", "--", "true")

    def test_file(self):
        def put(source, _):
            os.mkdir(self.locks + "/k", 0o700)
            for name in os.listdir(source):
                slot = name.partition("state.")[2]
                path = f"{self.locks}/k/{'state' if slot else name}"
                with open(f"{source}/{name}", "rb") as text:
                    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                    os.pwrite(file, text.read(), int(slot or 0) << 20)
                    os.close(file)
            return self.file

        self.each("file", put)

    def test_redis(self):
        def put(source, _):
            server = parts.Redis()
            for line in parts.read(source + ".json").splitlines():
                server.tell(*json.loads(line))
            return server.url

        self.each("redis", put)

    def test_mysql(self):
        def put(source, version):
            server = parts.fixture("mysql")
            url = server.fresh("golden_" + version)
            server.tell(f"USE golden_{version}; " + parts.read(source + ".sql"))
            return url

        self.each("mariadb", put)


parts.main()
