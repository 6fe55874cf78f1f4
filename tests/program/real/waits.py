# SPDX-License-Identifier: Apache-2.0
"""How waits end: by their time while the store is silent, at a store that was never reached."""
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


LOAD = 0.3  # s: allowance for a busy machine

if __name__ == "__main__":
    parts.main()
