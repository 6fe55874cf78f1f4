# SPDX-License-Identifier: Apache-2.0
"""Servers that fall silent or forget, while a keeper, a run under a handle, --min-hold or release
--revoke needs them. One silence is that of many runs, because each waits for leases."""
import glob, os, subprocess
import parts

ttl = {"redis": 3, "mysql": 3, "zookeeper": 6}  # s: shorter ones these stores refuse, or nearly


def keepers(key):
    """The keepers of this key that live."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read().split(b"\0")[0] == f"lock-keeper: {key}".encode():
                    found.append(int(path.split("/")[2]))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return [pid for pid in found if parts.alive(pid)]


class Silent(parts.Case):
    def on_each(self, question):
        """On each kind of store, at the same time."""
        def asked(kind, url):
            self.store, self.lease = ["-b", url], ["--ttl", f"{ttl[kind]}s"]
            server = parts.fixture(kind)
            try:
                question(server)
            finally:
                server.thaw()
            self.alone()

        self.side_by_side([(kind, parts.fixture(kind).fresh(self._testMethodName))
                           for kind in ttl], asked)

    def next_is_granted(self, key, *words):
        return self.run_dlock(*self.store, "--key", key, "-w", "50s", *words, "--",
                              *self.judged("exit 0", key))

    def test_frozen(self):
        """The keeper ends with its lease; the script learns it from check, and the lock goes to
        the next. A hold whose input ends says that its lock was not released, whatever is known
        of it. --revoke ends in time with 69; the job ends with its lease."""

        def question(server):
            kept = f"frozen.{server.kind}.{os.getpid()}"
            handle = self.acquired(*self.store, "--keep", "--key", kept, *self.lease,
                                   "--watch-pid", str(os.getpid()))
            self.assertEqual(len(keepers(kept)), 1)
            hold = self.hold_by_input("h", *self.store, *self.lease)
            held = self.run_dlock(*self.store, "--key", "r", *self.lease, "--",
                                  *self.judged(of="r"))
            parts.within("the job runs", self.runs)
            check = ["check", *self.store, "--key", kept, "--handle", handle]
            server.freeze()
            hold.process.stdin.close()
            short = ["--connect-timeout", "100ms", "--op-timeout", "100ms"]
            self.tell(*check, *short, wanted=[69])
            self.tell("release", *self.store, "--key", "r", "--revoke", "--wait", "1s",
                      "--connect-timeout", "1s", wanted=[69])
            hold.end(0)
            self.assertIn("dlock: h: not released (", hold.err)
            parts.within("the keeper ends", lambda: not keepers(kept))
            held.end(123)
            server.thaw()
            # Its last renewal may have lain in the server's buffer.
            self.next_is_granted("r").end(0)
            self.assertEqual(self.runs(), 2)
            self.tell("run", *self.store, "--key", kept, "-w", "50s", "--", "true")
            self.tell(*check, wanted=[1])

        self.on_each(question)

    def test_min_hold(self):
        """The server is silent when the jobs end: dlock ends all the same, and the key is not free
        before its time. If that is longer than the lease can last on a silent server, it is
        said."""

        def question(server):
            begin = parts.boottime()  # before the grants; what dlock says comes behind them
            runs = {hold: self.run_dlock(*self.store, "--key", f"k{hold}", *self.lease,
                                         "--min-hold", f"{hold}s", "--",
                                         *self.judged("read go", f"k{hold}"),
                                         stdin=subprocess.PIPE)
                    for hold in (2, 15)}
            parts.within("the jobs run", lambda: self.runs() == 2)
            server.freeze()
            for run in runs.values():
                run.go()
            runs[2].end(0)
            runs[15].end(0, 123)
            server.thaw()
            behind = {hold: self.next_is_granted(f"k{hold}") for hold in runs}
            self.assertGreaterEqual(behind[2].event("acquired")["t"], begin + 2, runs[2].err)
            granted = runs[15].event("acquired")["t"]
            if behind[15].event("acquired")["t"] < granted + 15:
                self.assertIn("min-hold", runs[15].err)
            for run in behind.values():
                run.end(0)

        self.on_each(question)


class Forgetful(parts.Case):
    """A Redis that is restarted has forgotten all."""

    def test_keeper(self):
        server = parts.Redis()
        name = f"wiped.{os.getpid()}"
        lock = ["-b", server.url, "--key", name]
        handle = self.acquired(*lock, "--keep", "--ttl", "3s", "--watch-pid", str(os.getpid()))
        server.restart()
        parts.within("the keeper ends", lambda: not keepers(name))
        self.tell("check", *lock, "--handle", handle, wanted=[1])
        self.tell("release", *lock, "--handle", handle, wanted=[1, 75])
        self.tell("run", *lock, "-n", "--", "true")

    def test_run_under_a_handle(self):
        """The job is dead before the server grants to the next one."""
        server = parts.Redis()
        lock = ["-b", server.url.replace("grace=0", "grace=5s"), "--key", "k", "--ttl", "4s"]
        handle = self.acquired("-q", *lock, "-w", "50s")
        held = self.run_dlock(*lock, "--handle", handle, "--", *self.judged())
        parts.within("the job runs", self.runs)
        waiter = self.run_dlock(*lock, "-w", "50s", "--", *self.judged("exit 0"))
        waiter.event("waiting")
        server.restart()
        held.end(123)
        waiter.end(0)
        self.assertEqual(self.runs(), 2)
        self.alone()


parts.main()
