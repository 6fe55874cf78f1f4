# SPDX-License-Identifier: Apache-2.0
"""Shared locks and permits on real stores, while holders are killed and stopped and the server is
silent: a writer is alone, readers only among readers, and of two permits never three are in use.
The judges are flock(2) on local files."""
import os, random, signal
import parts

ttl = {"file": "3s", "redis": "3s", "mysql": "3s", "zookeeper": "6s"}


class SharedAndPermits(parts.Case):
    def job(self, judge):
        return ["sh", "-c",
                f"exec 8>{self.dir}/judge 9>{self.dir}/judge2; "
                f"{judge} || touch {self.dir}/overlap; "
                            f"echo $$ >>{self.dir}/ran; sleep 0.3"]

    def storm(self, kinds_of_contenders):
        seed = int(os.environ.get("DLOCK_TEST_SEED", 0)) or random.randrange(1, 2**31)
        print("DLOCK_TEST_SEED", seed)
        dice = random.Random(seed)
        for kind in ttl:
            with self.subTest(kind):
                server = None if kind == "file" else parts.fixture(kind)
                url = server.fresh(self._testMethodName) if server else self.file
                lock = ["-b", url, "--key", "k", "--ttl", ttl[kind], "-w", "100s"]
                runs = []
                for n in range(9):
                    options, judge = kinds_of_contenders[n % len(kinds_of_contenders)]
                    runs.append(self.run_dlock(*lock, *options, "--", *self.job(judge)))
                parts.within("some ran", lambda: self.runs() >= 2)
                dice.choice(runs).process.kill()
                stopped = dice.choice([r for r in runs if r.process.poll() is None] or runs)
                stopped.process.send_signal(signal.SIGSTOP)
                if server:
                    server.freeze()
                    try:  # until a lease has ended, or nobody held one
                        waiting = self.run_dlock(*lock, *options, "--op-timeout", "300ms",
                                                 "--connect-timeout", "300ms", "-w", "3s", "--",
                                                 "true")
                        waiting.end(69, 75)
                    finally:
                        server.thaw()
                if kind == "file":  # there a stopped holder keeps the lock
                    stopped.process.send_signal(signal.SIGCONT)
                for run in runs:
                    if run is not stopped:
                        run.end(0, 123, 69, -9)
                stopped.process.send_signal(signal.SIGCONT)
                stopped.end(0, 123, 69, -9)
                self.assertGreaterEqual(self.runs(), 5)
                self.alone()
                self.forget_runs()

    def test_readers_and_writers(self):
        self.storm([(["-s"], "flock -s -n 9"), ([], "flock -x -n 9"), (["-s"], "flock -s -n 9")])

    def test_permits(self):
        self.storm([(["--limit", "2"], "{ flock -n 8 || flock -n 9; }")])

    def test_permits_and_a_writer(self):
        permit = "{ flock -s -n 8 && flock -s -n 9; }"
        self.storm([(["--limit", "2"], permit), ([], "{ flock -n 8 && flock -n 9; }"),
                    (["--limit", "2"], permit)])


parts.main()
