# SPDX-License-Identifier: Apache-2.0
"""How waits end: by their time while the store is silent, at a store that was never reached, and
behind a waiter that is stopped."""
import os, signal
import parts


class Waits(parts.Case):
    def holder(self, *words):
        run = self.run_dlock(*self.store, *words, "--", "sleep", "600")
        run.event("acquired")
        return run

    def test_silent_to_the_end(self):
        """It has time to wait on after its last question, which is not answered. A statement that
        waits in the server goes on then: that is no answer."""
        for number, (kind, items) in enumerate((
                ("redis", "?restart_grace=0"), ("redis", "?restart_grace=0&recipe=set"),
                ("redlock", "?restart_grace=0"), ("zookeeper", ""),
                ("zookeeper", "?recipe=ephemeral"), ("mysql", ""), ("mysql", "?recipe=get-lock"),
                ("postgresql", ""), ("postgresql", "?recipe=advisory"), ("etcd", ""))):
            with self.subTest(kind + items):
                server = parts.fixture(kind)
                self.store = ["-b", server.url + items, "--key", f"silent{number}"]
                self.holder()
                waiter = self.run_dlock(*self.store, "-w", "4s", "--op-timeout", "500ms", "--",
                                        "true")
                began = waiter.event("waiting")["t"]
                try:
                    server.freeze()
                    # else its last answer may be recent enough
                    in_time = parts.boottime() - began < 2.5
                    waiter.end(69, *([] if in_time else [75]))
                finally:
                    server.thaw()

    def test_never_reached(self):
        """It ends with --connect-timeout, though the pauses between its tries grow."""
        for _ in range(3):
            began = parts.boottime()
            self.tell("run", "-b", f"redis://127.0.0.1:{parts.free_port()}", "--key", "k",
                      "--connect-timeout", "1400ms", "--", "true", wanted=[69])
            took = parts.boottime() - began
            self.assertGreaterEqual(took, 1.4)
            self.assertLess(took, 1.4 + 0.25 + LOAD)

    def test_behind_a_stopped_permit(self):
        """Those behind it go on within 6 s, though another permit is held and renewed."""
        for kind in "mysql", "postgresql":
            with self.subTest(kind):
                self.store = ["-b", parts.fixture(kind).url, "--key", "permits", "--limit", "2"]
                first = self.holder()
                self.holder("--ttl", "3s")
                stopped = self.run_dlock(*self.store, "--", "true")
                stopped.event("waiting")
                behind = self.run_dlock(*self.store, "--", "true")
                behind.event("waiting")
                os.kill(stopped.pid, signal.SIGSTOP)
                os.kill(first.pid, signal.SIGTERM)
                first.until("release", lambda: first.process.poll() is not None)
                free = first.event("released")["t"]
                self.assertLess(behind.event("acquired")["t"] - free, 6)


LOAD = 0.6  # s: allowance for a busy machine

if __name__ == "__main__":
    parts.main()
