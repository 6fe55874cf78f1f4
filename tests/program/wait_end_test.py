# SPDX-License-Identifier: Apache-2.0
"""The end of a wait when a client library call never returns (hang_wait=N: from the Nth poll on).
Without the limits tested here none of these would end."""
import os, signal
import harness
from harness import FAKE, read

SLACK = 3  # s: for a machine that is busy
TIMES = ["--connect-timeout", "1s", "--op-timeout", "500ms"]
SILENT = "dlock: k: the store did not answer in time\n"


class WaitEnd(harness.Case):
    def test_in_time(self):
        """-w and -n end in time, as unavailable."""
        for seconds, options in ((1.25, ["-w", "1s"]), (1.75, ["-n", *TIMES]), (1.75, TIMES),
                                 (1.25, ["-w", "1s", "-E", "0"])):
            with self.subTest(options):
                done = self.lease(*options, "--", "touch", "ran", faults="hang_wait=0", wanted=69,
                                  bound=seconds + SLACK)
                self.assertEqual(SILENT, done.out + done.err)
        self.not_run()

    def test_falls_silent(self):
        """A wait whose store does ends as unavailable, whatever was known of the holder."""
        done = self.lease("-w", "3s", "--", "touch", "ran", faults="hang_wait=1&grant_after=1h",
                          wanted=69, bound=3.25 + SLACK)
        self.assertNotIn("is held by", done.err)
        self.not_run()

    def test_acquire(self):
        """The same for acquire, --hold and --keep."""
        for how in "--ttl=30s", "--hold", "--keep":
            for seconds, options in (1.25, ["-w", "1s"]), (1.75, ["-n", *TIMES]):
                with self.subTest(how, options=options):
                    done = self.dlock("acquire", "-b", "fake:?hang_wait=0", "--key", "k", *options,
                                      how, dlock=FAKE, wanted=69, bound=seconds + SLACK)
                    self.assertEqual(SILENT, done.out + done.err)

    def test_signal(self):
        """It ends the wait, sent once or twice."""
        run = self.start_lease("--", "touch", "ran", faults="hang_wait=0")
        run.until("its keeper", lambda: len(os.listdir(f"/proc/{run.pid}/task")) >= 2)
        run.send(signal.SIGTERM).send(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, run.end(seconds=1 + SLACK))
        self.assertEqual("", run.err)
        self.not_run()

    def test_stopped_job(self):
        """It gets the signal that asks it to end."""
        run = self.start_key("-k", "60s", "--", "sh", "-c",
                             'trap "echo got; exit 3" TERM; echo $$; while :; do sleep 0.05; done')
        job = int(run.prints("\n") and run.out)
        os.kill(job, signal.SIGSTOP)
        run.until("stop of the job", lambda: "\nState:\tT" in read(f"/proc/{job}/status"))
        run.send(signal.SIGTERM).end(3)
        self.assertIn("got\n", run.out)


harness.main()
