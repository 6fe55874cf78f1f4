# SPDX-License-Identifier: Apache-2.0
"""What inspect shows of the last run of a key."""
import os, pwd, re, signal, socket
import stores

HOST, USER = re.escape(socket.gethostname()), pwd.getpwuid(os.getuid()).pw_name
TIME, AGO = "20[0-9-]+T[0-9:.]+Z", "[0-9.]+[um]?s ago"


class LastRun(stores.Case):
    def setUp(self):
        super().setUp()
        self.needs_last_run()

    def last(self, key="k"):
        return self.inspected(key)["last_run"]

    def assertView(self, *lines, starts=None):
        seen = self.dlock("inspect", "k")
        for line in lines:
            self.assertLine(line, seen)
        if starts is not None:
            self.assertEqual(starts, len(re.findall("(?m)^.*started.*$", seen.out)), seen)
        return seen.out

    def start_noted(self, *options):
        """A job with --once-per that goes on."""
        run = self.start_key("--ttl", f"{self.short}s", "--once-per", "1h", *options, "--", "sh",
                             "-c", "echo up; exec sleep 60")
        run.prints("up")
        return run

    def test_free_key(self):
        """Where, by which user, when, how long, how it ended."""
        self.key("--reason", "nightly", "--", "sh", "-c", "exit 3", wanted=3)
        self.assertView("state +free.*", rf"last run +{HOST}:[0-9]+ \({USER}\), token [0-9]+, exit "
                        "status 3", f" +started {TIME}, lasted [0-9.]+m?s")
        seen = self.inspected("k")
        self.assertEqual((seen["token"], 3, None), tuple(
            seen["last_run"][name] for name in ("token", "exit_status", "signal")))
        self.key("--", "sh", "-c", "kill $$", wanted=-15)
        self.assertView(r"last run .*, ended by signal 15 \(TERM\)")
        # a lease that no job ran under leaves it as it is
        self.dlock("release", "--key", "k", "--handle", self.acquired("--key", "k"))
        self.assertEqual(15, self.last()["signal"])

    def test_several_keys(self):
        """A run of several keys, and one with --min-hold."""
        self.dlock("run", "--key", "a", "--key", "b", "--min-hold", "200ms", "--", "sh", "-c",
                   "exit 4", wanted=4)
        for key in "a", "b":
            self.assertEqual(4, self.last(key)["exit_status"])

    def test_not_started(self):
        """A command that cannot be started is no run."""
        self.key("--", "./is-not-there", wanted=127)
        self.assertIsNone(self.last())

    def test_killed(self):
        """dlock is: the start is known where it was noted, and the end is not."""
        self.needs_starts()
        run = self.start_noted()
        self.assertNotIn("end unknown", self.assertView())  # it runs
        run.send(signal.SIGKILL).end(-9)
        self.until_free("k")
        self.assertView(f"last run +started {TIME}, {AGO}, with --once-per, end unknown", starts=1)
        self.key("--", "true")
        self.assertNotIn("end unknown", self.assertView())

    def test_start_and_last_run(self):
        """A start of --once-per and the last run: a line for each run, and none twice."""
        self.needs_starts()
        self.key("--once-per", "1h", "--", "true")
        self.assertView(starts=1)
        self.key("--", "true")  # not that of --once-per
        self.assertView(f"once-per last started {TIME}, {AGO}", starts=2)
        run = self.start_noted("--again")
        self.assertView(f"started +{TIME}, {AGO}, with --once-per", "earlier +.*, exit status 0",
                        starts=2)
        run.send(signal.SIGKILL).end(-9)
        self.until_free("k")
        self.assertView(f"last run +started {TIME}, .*, end unknown", "earlier +.*, exit status 0",
                        starts=2)


stores.main()
