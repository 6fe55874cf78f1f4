# SPDX-License-Identifier: Apache-2.0
"""For cron: --min-hold, --once-per, --splay, -E 0."""
import os, signal, subprocess, sys, time, unittest
import stores
from stores import STORE
from harness import ROOT, boottime, read, within

PIPE = subprocess.PIPE
# Those of scripts/prove are more.
TICKS = int(os.environ.get("DLOCK_TEST_TICKS", 5 if STORE == "file" else 2))


for_an_hour = unittest.skipIf(STORE == "zookeeper", "no session lasts for an hour")


class Hosts(stores.Case):
    """Eight hosts run a job in each tick: seven at once, and one with a slow clock."""

    def runs(self, *options):
        """How often the job ran in each tick."""
        seen = self.program(
            sys.executable, ROOT + "/tests/support/cron_hosts.py", "--ticks", str(TICKS),
            self.env["DLOCK"], "-b", self.url, "-n", "-E", "0", *options,
            bound=60 + 20 * TICKS).json
        self.assertEqual([0], seen["statuses"], seen)
        return seen["runs"]

    @for_an_hour
    def test_min_hold(self):
        self.assertEqual([1] * TICKS, self.runs("--ttl", "1h", "--min-hold", "50m"))

    def test_once_per(self):
        self.needs_starts()
        self.assertEqual([1] * TICKS, self.runs("--once-per", "1h"))

    def test_control(self):
        """What the tests above count: without both the last host runs the job, too."""
        for count in self.runs():
            self.assertGreater(count, 1)


class MinHold(stores.Case):
    def assertRest(self, key, seconds):
        self.assertIn(self.holder(key)["lease_remaining_ms"], range(1, 1000 * seconds + 1))

    def test_remainder(self):
        """dlock ends with the job, the lease is shortened to the remainder; of several keys each
        is kept for the rest, and no longer."""
        words = ["--ttl", "1h", "--min-hold", "20s", "--"]
        self.key(*words, "sh", "-c", "exit 3", wanted=3, bound=20)
        self.dlock("run", "--key", "a", "--key", "b", *words, "true", bound=20)
        for key in "k", "a", "b":
            self.assertRest(key, 20)
        self.key("-n", "--", "true", wanted=75)

    def test_next(self):
        """The next tick runs when the time is over, and not before."""
        began = boottime()
        for _ in range(2):
            self.key("--ttl", "1h", "--min-hold", "1s", "--", "true", bound=20)
        self.assertGreaterEqual(boottime() - began, 1)

    def test_over(self):
        """When the job took longer; and not kept for a job that could not start."""
        self.key("--min-hold", "1ms", "--", "sleep", "0.01")
        self.is_free("k")
        self.key("--min-hold", "1h", "--", "/nonexistent", wanted=127)
        self.is_free("k")


class OncePer(stores.Case):
    def setUp(self):
        super().setUp()
        self.needs_starts()

    def once(self, period, *words, key="k", **more):
        """What the job prints."""
        return self.dlock("run", "--key", key, "--once-per", period, *words, **more)

    def refused_once(self, period, *words, text="k was started "):
        return self.refused(75, text, "run", "--key", "k", "--once-per", period, *words, "--",
                            "echo", "ran")

    def test_one_start(self):
        """Per period; busy gives its time, -E replaces the status."""
        job = ["--", "echo", "ran"]
        self.assertEqual("ran\n", self.once("1h", *job).out)
        done = self.refused_once("1h", text="--once-per 1h")
        self.assertRegex(done.err, "k was started .* ago")
        for options, status in (["-q", "-E", "5"], 5), (["-E", "0"], 0):
            done = self.once("1h", *options, *job, wanted=status)
            self.assertEqual("", done.out + done.err)
        self.is_free("k")
        self.assertEqual("ran\n", self.once("1h", *job, key="other").out)
        self.key("--", "true")  # without the option it does not matter

    def test_failed_and_not_executed(self):
        """A job that failed has started, one that could not be executed has not."""
        self.once("day", "--", "sh", "-c", "exit 7", wanted=7)
        self.refused_once("day")
        self.once("day", "--", "/nonexistent", key="z", wanted=127)
        self.once("day", "--", "/etc/passwd", key="z", wanted=126)
        self.once("day", "--", "true", key="z")

    def test_again(self):
        """--again starts although the job ran, and is noted."""
        self.assertEqual("first\n", self.once("2s", "--again", "--", "echo", "first").out)
        began = boottime()
        self.assertEqual("again\n", self.once("2s", "--again", "--", "echo", "again").out)
        # Noted: 2 s less the slack from the second start, not from the first.
        within("the next start", lambda: self.once("2s", "-q", "--", "true",
                                                   wanted=(0, 75)).status == 0)
        self.assertGreaterEqual(boottime() - began, 1.5)
        self.once("1h", "--again", "--", "/nonexistent", wanted=127)
        self.refused_once("1h")  # the run before is still noted

    def test_until_success(self):
        """A run that failed does not count, one that succeeded does."""
        def daily(*words, **more):
            return self.once("day", "--until-success", *words, **more)
        daily("--", "sh", "-c", "exit 7", wanted=7)
        daily("--max-run", "100ms", "--", "sleep", "100", wanted=124)
        daily("--", "sh", "-c", "kill -TERM $$", wanted=-15)
        daily("--min-hold", "10ms", "--ttl", "1h", "--", "sh", "-c", "exit 3", wanted=3)
        self.until_free("k")
        self.assertEqual("ran\n", daily("--", "echo", "ran").out)
        self.refused_once("day", "--until-success")
        # A run by hand that fails does not take away the one that succeeded.
        daily("--again", "--", "false", wanted=1)
        self.refused_once("day", "--until-success")

    def test_until_success_unseen(self):
        """A run whose end was not seen counts."""
        run = self.start_key("--ttl", f"{self.short}s", "--once-per", "day", "--until-success",
                             "--", "sh", "-c", "echo up; exec sleep 100")
        run.prints("up")
        run.send(signal.SIGKILL).end(-9)
        # After the lease.
        done = self.once("day", "--until-success", "--", "echo", "ran", wanted=75, bound=20)
        self.assertIn("k was started", done.err)

    def test_record_expires(self):
        """With the period."""
        self.once("200ms", "--", "true")
        if STORE == "file":
            self.assertTrue(os.path.exists("locks/k/started"))
        time.sleep(0.25)
        self.once("200ms", "--", "false", wanted=1)
        if STORE != "file":
            return  # the record has an expiry of the server
        time.sleep(0.25)
        self.once("200ms", "--", "/nonexistent", wanted=127)
        self.assertFalse(os.path.exists("locks/k/started"))

    def test_second_waits(self):
        """For the lock, then finds the start of the first."""
        first = self.start_key("--once-per", "1h", "--", "sh", "-c", "read go", stdin=PIPE)
        first.event("acquired")
        second = self.start_key("--once-per", "1h", "--", "touch", "ran")
        second.event("waiting")
        first.go().end(0)
        second.end(75)
        self.not_run()
        self.assertIn("was started", second.err)


class Splay(stores.Case):
    def test_splay(self):
        """A random time up to D, which a signal ends."""
        self.assertEqual("ran\n", self.key("--splay", "50ms", "--", "echo", "ran").out)
        # -n: no wait for the lock, but the splay comes before it; TERM ends it.
        run = self.start_key("-n", "--splay", "100d", "--", "touch", "ran")
        run.until("it sleeps", lambda: os.path.exists(run.name + ".events"))
        self.assertFalse(run.ends_within(1))
        run.send(signal.SIGTERM).end(-15)
        self.not_run()


stores.main()
