# SPDX-License-Identifier: Apache-2.0
"""The release before beside this one, as during an upgrade: $DLOCK_OLD is its binary. Each is
holder, waiter, and releaser of a lock of the other."""
import os, unittest
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

    def test_waiter(self):
        """A holder of one, a waiter of the other: it sees who holds, waits, and is next, with a
        larger token."""

        def question(lock, one, other):
            held = self.run_dlock(*lock, "--", *self.judged("read line <fifo; exit 7"), dlock=one)
            first = held.event("acquired")
            self.tell("run", *lock, "-n", "--", "true", dlock=other, wanted=[75])
            self.assertIn("held", self.tell("inspect", *lock[:2], lock[3], dlock=other))
            waiter = self.run_dlock(*lock, "--", *self.judged("exit 0"), dlock=other)
            waiter.event("waiting")
            with open(self.dir + "/fifo", "w") as end:
                end.write("\n")
            held.end(7)
            waiter.end(0)
            self.assertGreater(waiter.event("acquired")["token"], first["token"])
            self.tell("inspect", *lock[:2], lock[3], dlock=one)

        os.mkfifo(self.dir + "/fifo")
        self.each(question)

    def test_handle(self):
        """A lease that one took: the other checks, renews, runs under and releases it."""

        def question(lock, one, other):
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
    """What releases have left on disk, in golden/VERSION: a key that is free, with a last run and a
    start."""

    def test_file(self):
        for version in sorted(os.listdir(golden)):
            with self.subTest(version):
                self.put(f"{golden}/{version}", f"{self.locks}/k")
                said = self.tell("inspect", "-b", self.file, "k")
                self.assertRegex(said,
                                 r"state +free\ntoken +1795673446881893 .*\n"
                                  r"last run db1:18709 .*exit status 0\n.*--once-per")
                self.tell("run", "-b", self.file, "--key", "k", "--once-per", "3650d", "-n", "--",
                          "true", wanted=[75])
                token = int(self.tell("run", "-b", self.file, "--key", "k", "--", "sh", "-c",
                                      "echo $DLOCK_TOKEN"))
                self.assertGreater(token, 1795673446881893)

    def put(self, source, key):
        os.makedirs(key, 0o700)
        for name in os.listdir(source):
            slot = name.partition("state.")[2]
            path = key + ("/state" if slot else "/" + name)
            with open(source + "/" + name,
                      "rb") as text, open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600),
                                          "r+b") as file:
                file.seek(int(slot or 0) << 20)
                file.write(text.read())


parts.main()
