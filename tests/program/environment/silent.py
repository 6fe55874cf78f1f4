# SPDX-License-Identifier: Apache-2.0
"""Servers that fall silent or forget, while a keeper, a run under a handle, --min-hold or release
--revoke needs them."""
import glob, os, signal
import parts

ttl = {"redis": 3, "mysql": 3, "zookeeper": 6}


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
        for kind in ttl:
            with self.subTest(kind):
                server = parts.fixture(kind)
                self.store = ["-b", server.fresh(self._testMethodName)]
                try:
                    question(server, ["--ttl", f"{ttl[kind]}s"])
                finally:
                    server.thaw()
                self.alone()
                self.forget_runs()

    def next_is_granted(self, *words):
        return self.run_dlock(*self.store, "--key", "k", "-w", "50s", *words, "--",
                              *self.judged("exit 0"))

    def test_keeper_of_a_frozen_server(self):
        """It ends with its lease; the script learns it from check, and the lock goes to the
        next."""

        def question(server, lease):
            watch = ["--watch-pid", str(os.getpid())]
            name = f"frozen.{server.kind}.{os.getpid()}"
            handle = self.tell("acquire", *self.store, "--keep", "--key", name, *lease,
                               *watch).strip()
            keeper = keepers(name)
            self.assertEqual(len(keeper), 1)
            server.freeze()
            self.tell("check", *self.store, "--key", name, "--handle", handle, "--connect-timeout",
                      "100ms",
                      "--op-timeout", "100ms", wanted=[69])
            parts.within("the keeper ends", lambda: not keepers(name))
            server.thaw()
            # Its last renewal may have lain in the server's buffer.
            self.tell("run", *self.store, "--key", name, "-w", "50s", "--", "true")
            self.tell("check", *self.store, "--key", name, "--handle", handle, wanted=[1])

        self.on_each(question)

    def test_hold_that_ends_while_the_server_is_frozen(self):
        """Its input ends: that the lock was not released is said, whatever is known of it."""

        def question(server, lease):
            os.mkfifo(f"{self.dir}/{server.kind}")
            hold = parts.Run(self, "acquire", *self.store, "--hold", "--key", "k", *lease,
                             before=["sh", "-c", f'exec "$@" <{server.kind}', "sh"])
            with open(f"{self.dir}/{server.kind}", "w"):
                hold.until("the handle", lambda: hold.out)
                server.freeze()
            hold.end(0)
            self.assertIn("dlock: k: not released (", hold.err)

        self.on_each(question)

    def test_keeper_of_a_wiped_server(self):
        server = parts.Redis()
        name = f"wiped.{os.getpid()}"
        lock = ["-b", server.url, "--key", name]
        handle = self.tell("acquire", *lock, "--keep", "--ttl", "3s", "--watch-pid",
                           str(os.getpid())).strip()
        server.restart()
        parts.within("the keeper ends", lambda: not keepers(name))
        self.tell("check", *lock, "--handle", handle, wanted=[1])
        self.tell("release", *lock, "--handle", handle, wanted=[1, 75])
        self.tell("run", *lock, "-n", "--", "true")

    def test_run_under_a_handle_while_the_server_forgets(self):
        """The job is dead before the server, restarted empty, grants to the next one."""
        server = parts.Redis()
        self.store = ["-b", server.url.replace("grace=0", "grace=5s")]
        handle = self.tell("acquire", "-q", *self.store, "--key", "k", "-w", "50s", "--ttl",
                           "4s").strip()
        held = self.run_dlock(*self.store, "--key", "k", "--handle", handle, "--ttl", "4s", "--",
                              *self.judged())
        parts.within("the job runs", self.runs)
        waiter = self.next_is_granted("--ttl", "4s")
        waiter.event("waiting")
        server.restart()
        held.end(123)
        waiter.end(0)
        self.assertEqual(self.runs(), 2)
        self.alone()

    def test_min_hold(self):
        """The server is silent when the job ends: dlock ends all the same, and the key is not free
        before its time."""

        def question(server, lease):
            begin = parts.boottime()  # before the grant; what dlock says comes behind it
            held = self.run_dlock(*self.store, "--key", "k", *lease, "--min-hold", "2s", "--",
                                  *self.judged(f"kill -STOP {server.pid}"))
            held.event("acquired")
            held.end(0)
            server.thaw()
            waiter = self.next_is_granted()
            waiter.end(0)
            self.assertGreaterEqual(waiter.event("acquired")["t"], begin + 2, held.err)

        self.on_each(question)

    def test_min_hold_beyond_the_lease(self):
        """Longer than the lease can last on a silent server: that is said."""

        def question(server, lease):
            held = self.run_dlock(*self.store, "--key", "k", *lease, "--min-hold", "15s", "--",
                                  *self.judged(f"kill -STOP {server.pid}"))
            begin = held.event("acquired")["t"]
            held.end(0, 123)
            server.thaw()
            waiter = self.next_is_granted()
            if waiter.event("acquired")["t"] < begin + 15:
                self.assertIn("min-hold", held.err)

        self.on_each(question)

    def test_revoke_on_a_frozen_server(self):
        """Ends in time with 69; the job ends with its lease."""

        def question(server, lease):
            held = self.run_dlock(*self.store, "--key", "k", *lease, "--", *self.judged())
            held.event("acquired")
            parts.within("the job runs", self.runs)
            server.freeze()
            self.tell("release", *self.store, "--key", "k", "--revoke", "--wait", "2s",
                      "--connect-timeout", "1s", wanted=[69])
            held.end(123)
            server.thaw()
            self.next_is_granted().end(0)
            self.assertEqual(self.runs(), 2)

        self.on_each(question)

    def revoke_meanwhile(self, meanwhile, wanted=0, wait="50s"):
        """The holder is stopped, so that it does not see the wish, and then something happens:
        --wait ends, and the next one is alone."""

        def question(server, lease):
            held = self.run_dlock(*self.store, "--key", "k", *lease, "--",
                                  *self.judged("trap '' TERM; while :; do sleep 1; done"))
            held.event("acquired")
            parts.within("the job runs", self.runs)
            os.kill(held.pid, signal.SIGSTOP)
            trace = f"{self.dir}/trace.{server.kind}"
            revoke = parts.Run(self, "release", *self.store, "--key", "k", "--revoke", "--wait",
                               wait, "--trace", trace)
            revoke.until("the wish is answered", lambda: '"ok"' in parts.read(trace))
            meanwhile(server, held)
            revoke.end(wanted)
            server.thaw()
            self.next_is_granted().end(0)
            self.assertEqual(self.runs(), 2)
            os.kill(held.pid, signal.SIGCONT)
            held.end(123, -9)

        self.on_each(question)

    def test_revoke_and_the_holder_is_killed(self):
        self.revoke_meanwhile(lambda server, held: held.process.kill())

    def test_revoke_and_the_whole_tree_is_killed(self):
        def kill(server, held):
            guard = parts.children(held.pid)[0]
            for pid in (guard, held.pid, *parts.children(guard)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # a job that has ended with them
                    pass

        self.revoke_meanwhile(kill)

    def test_revoke_and_the_lease_ends(self):  # with its session, where it has one
        self.revoke_meanwhile(lambda server, held: None)

    def test_revoke_and_the_server_is_frozen(self):
        self.revoke_meanwhile(lambda server, held: server.freeze(), 69, "3s")


parts.main()
