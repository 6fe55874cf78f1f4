# SPDX-License-Identifier: Apache-2.0
"""Invalid command lines and variables: one clear line and the right status, and no lock is taken.
All but those that need a process, or the fake backend, are rows of pure/cli/command_line_test."""
import os, re
import harness
from harness import FAKE


class Options(harness.Case):
    def tearDown(self):  # no refused command may have reached the store
        self.assertFalse(os.path.exists("locks/k"))

    def test_no_command(self):
        done = self.dlock(wanted=64)
        self.assertEqual("", done.out)
        self.assertRegex(done.err, r"\Ausage: dlock run ")

    def test_times(self):
        """Those that do not fit name the options and the values that would fit."""
        # `file` has no lease to fit into unless it is detached; the fake backend's does.
        for status, words, items, options in (
                (64, "--kill-after", "", ("--ttl", "3s", "--kill-after", "4s")),
                (64, "?short_ttl=yes", "", ("--ttl", "1999ms")),
                (64, "?short_ttl=yes", "short_ttl=no", ("--ttl", "1999ms"))):
            self.refused(status, words, "run", "-b", f"fake:?{items}", "--key", "k", *options,
                         "--", "true", dlock=FAKE)
        self.lease("--ttl", "2s", "--", "true")
        self.lease("--ttl", "1999ms", "--", "true", faults="short_ttl=yes")
        self.refused(78, "DLOCK_TTL", "run", "-b", "fake:", "--key", "k", "--", "true", dlock=FAKE,
                     env={"DLOCK_TTL": "1s"})

    def test_zookeeper_lock_delay(self):
        """One that leaves too little of the ttl names the longest one that fits."""
        self.needs_backend("zookeeper")
        words = ["-b", "zookeeper://h", "--key", "k", "--ttl", "6s", "--lock-delay"]
        done = self.refused(64, "?tick=", "run", *words, "30s", "--", "true")
        longest = re.search("use up to ([^,]*),", done.err)[1]
        self.dlock("run", "--explain", *words, longest, "--", "true")

    def test_handle_of_standard_input(self):
        """One that is none, or closed, is not repeated."""
        words = ["release", "--key", "k", "--handle", "-"]
        done = self.refused(64, "--handle -: standard input: ", *words, input="secret\n")
        self.assertNotIn("secret", done.err)
        self.refused(64, "cannot read standard input", *words, preexec_fn=lambda: os.close(0))

    def test_fence(self):
        """It has no backend, and no variable of one is judged."""
        for name in "DLOCK_URL", "DLOCK_HOST":
            self.dlock("fence", "--state", "state", "--token", "1", "--", "true",
                       env={name: "redis://h"})

    def test_historical_recipes(self):
        """They state their weakness in one line, unless -q; the others say nothing."""
        self.needs_backend("redis")
        for recipe, options, lines in (
                ("setnx-expire", (), 1), ("getset", (), 1), ("setnx-expire", ("-q",), 0),
                ("getset", ("-q",), 0), ("fair", (), 0), ("set", (), 0)):
            with self.subTest(recipe, options=options):
                done = self.dlock("inspect", "-b", "redis://127.0.0.1:1", "--connect-timeout",
                                  "100ms", "k", "--recipe", recipe, *options, wanted=69)
                said = re.findall("(?m)^dlock: redis, recipe [a-z-]*: ", done.err)
                self.assertEqual(lines, len(said), done)


harness.main()
