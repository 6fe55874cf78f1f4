# SPDX-License-Identifier: Apache-2.0
"""--once-per when the clock of the store jumps. The store is this machine: clock_shift.so moves the
wall clock of a process."""
import os, shutil, struct, subprocess, time
import harness
from harness import DLOCK, tool

SHIFT = os.environ.get("CLOCK_SHIFT") or tool("clock_shift.so")


def sanitizer(program):
    """AddressSanitizer's library, if it is one and not a part of dlock: it must be loaded first."""
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return " ".join(word for word in libraries.split() if "/libasan" in word)


class OncePer(harness.Case):
    makes_locks = False

    def at(self, seconds, *words, **more):
        """With the wall clock that far ahead."""
        with open("shift", "wb") as shift:
            shift.write(struct.pack("<q", seconds * 10**9).ljust(4096, b"\0"))
        env = {"CLOCK_SHIFT_FILE": self.dir + "/shift",
               "LD_PRELOAD": f"{sanitizer(DLOCK)} {SHIFT}".strip(),
               # date leaks
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        return self.program(*words, env=env, **more)

    def words(self, period, job="echo ran"):
        return [DLOCK, "run", "--key", "k", "--once-per", period, "--", "sh", "-c", job]

    def test_clock_shift(self):
        """It works."""
        self.assertGreater(int(self.at(86400, "date", "+%s").out), time.time() + 80000)

    def test_year_ahead(self):
        """A start noted by such a clock blocks for one period from its discovery, not a year."""
        for period in "1h", "day":
            with self.subTest(period):
                shutil.rmtree("locks", ignore_errors=True)
                words = self.words(period)
                self.at(31536000, *words)
                done = self.refused(75, "k was started in the future by the store's clock (",
                                    *words[1:])
                self.assertRegex(done.err, r"\((364d23h|365d) ahead\), so it counts as a start "
                                 "at this moment; not again")
                # From then on it counts as a start at that time.
                done = self.refused(75, "k was started", *words[1:])
                self.assertNotIn("in the future", done.err)
                self.assertEqual("ran\n", self.at(90000, *words).out)

    def test_never_twice(self):
        """In a period: a recent start by a clock that was far ahead."""
        for ahead, status in (7200, 0), (0, 75), (1800, 75), (3600, 0):
            self.at(ahead, *self.words("1h"), wanted=status)

    def test_time_zone(self):
        """A TZ that is no zone is refused with a calendar unit, and the zone is named."""
        os.mkdir("zones")
        for zone in "Asia/Tokyo", "Mars/Olympus":  # as in an image without the package tzdata
            env = {"TZ": zone, "TZDIR": self.dir + "/zones"}
            for unit in "hour", "day", "week", "month":
                self.refused(78, f"TZ: '{zone}' is neither a zone file (is tzdata installed?)",
                             *self.words(unit)[1:], env=env)
            self.dlock(*self.words("1h")[1:-1], "exit 0", env=env)
            shutil.rmtree("locks")
        env = {"TZ": "JST-9"}
        self.dlock(*self.words("day")[1:], env=env)
        self.refused(75, "not again (--once-per day, time zone JST-9)", *self.words("day")[1:],
                     env=env)
        self.assertRegex(self.dlock("inspect", "k", env=env).out,
                         r"\nnext .* after the start; time zone JST-9\n")
        self.assertIn("at most one per day, time zone JST-9, noted",
                      self.dlock("run", "--explain", *self.words("day")[2:], env=env).out)

    def test_quiet(self):
        """A clock that was ahead: -q and -E 0 say nothing."""
        self.at(7200, *self.words("1h"))
        words = self.words("1h")
        for option, status in ("-q", 75), ("-E0", 0):
            done = self.program(*words[:2], option, *words[2:], wanted=status)
            self.assertEqual("", done.out + done.err)

    def test_start_not_withdrawn(self):
        """--until-success: it is said, and the lock is released."""
        # The job puts a directory in the place of the note, which cannot be removed as a file is.
        done = self.key("--once-per", "day", "--until-success", "--", "sh", "-c",
                        "rm locks/k/started && mkdir locks/k/started && exit 7", wanted=7)
        self.assertRegex(done.err, r"\Adlock: k: the start could not be withdrawn \([^\n]*\); it "
                         r"may count for --once-per day\n\Z")
        self.is_free("k")


harness.main()
