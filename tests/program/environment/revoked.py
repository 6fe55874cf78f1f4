# SPDX-License-Identifier: Apache-2.0
"""release --revoke --wait, while something else happens than that the holder sees the wish: it
ends, and the next one is alone."""
import os, signal
import parts

ttl = {"redis": 3, "mysql": 3, "zookeeper": 6}  # s: shorter ones these stores refuse, or nearly


class Revoked(parts.Case):
    def stopped_holder(self, kind, url, wait):
        """One that is stopped, so that it does not see the wish, which is answered: it, the release
        and the lock. On a busy machine the lease may have ended before: then once more."""
        for attempt in range(10):
            lock, trace = ["-b", url, "--key", f"k{attempt}"], f"trace{attempt}"
            held = self.run_dlock(*lock, "--ttl", f"{ttl[kind]}s", "--",
                                  *self.judged("trap '' TERM; while :; do sleep 1; done"))
            held.event("acquired")
            parts.within("the job runs", self.runs)
            os.kill(held.pid, signal.SIGSTOP)
            revoke = self.start("release", *lock, "--revoke", "--wait", wait, "--trace", trace)
            revoke.until("the wish is answered, or too late", lambda: revoke.process.poll() == 75
                         or '"ok"' in parts.read(trace))
            if revoke.process.poll() != 75:
                return held, revoke, lock
            held.clean()
            self.forget_runs()
        self.fail("the lease always ended too early")

    def revoked(self, meanwhile, wanted, wait):
        def asked(kind, url):
            server = parts.fixture(kind)
            for _ in range(10):
                held, revoke, lock = self.stopped_holder(kind, url, wait)
                try:
                    meanwhile(server)
                    status = revoke.end(wanted, 75)
                finally:
                    server.thaw()
                if status == wanted:
                    break
                held.clean()  # 75: on a busy machine an answer came in the last second of the wait
                self.forget_runs()
            self.assertEqual(status, wanted)
            self.run_dlock(*lock, "-w", "50s", "--", *self.judged("exit 0")).end(0)
            self.assertEqual(self.runs(), 2)
            self.alone()
            os.kill(held.pid, signal.SIGCONT)
            held.end(123, -9)

        self.side_by_side([(kind, parts.fixture(kind).fresh(self._testMethodName))
                           for kind in ttl], asked)

    def test_the_lease_ends(self):
        """With its session, where it has one."""
        self.revoked(lambda server: None, 0, "50s")

    def test_the_server_is_frozen(self):
        self.revoked(lambda server: server.freeze(), 69, "3s")


parts.main()
