# SPDX-License-Identifier: Apache-2.0
"""dlock bench: what it prints, what it leaves behind, and that it detects a lock that does not
exclude."""
import os, re, signal
import harness
from harness import FAKE, read, write
from pseudoterminal import Terminal


class Bench(harness.Case):
    def bench(self, *words, **more):
        return self.dlock("bench", *words, **more)

    def quick(self, *words, **more):
        for _ in range(9):  # a busy machine may leave a short scenario without a sample
            done = self.bench("-d", "200ms", "-c", "4", *words, wanted=(0, 69), **more)
            if done.status == 0:
                break
            self.assertIn("no samples", done.out + done.err)
        self.assertEqual((0, ""), (done.status, done.err))
        return done

    def nothing_left(self):
        self.assertEqual([], [name for name in os.listdir("locks") if name != ".dlock"])


class Printed(Bench):
    def test_two_recipes(self):
        """Scenarios, the verdict, a comparison; nothing is left."""
        done = self.quick("--recipe", "all", "--scenario",
                          "uncontended,handoff,shared,limit,renew")
        self.assertRegex(done.lines[0], "^dlock .* bench · 4 clients · 200ms each")
        for scenario in "UNCONTENDED", "HANDOFF", "SHARED", "LIMIT", "RENEW":
            self.assertLine(f"{scenario}: .*", done)
        for line in ("file flock: no permits", "file lease: nothing to renew",
                     "PASS  mutual exclusion: .* 0 overlaps.*"):
            self.assertLine(line, done)
        ranked = "file (lease|flock) is ([0-9.]+ times )?as fast as file (lease|flock)"
        self.assertRegex(done.lines[-1], f"^uncontended: {ranked}; handoff: {ranked}; shared: "
                         f"{ranked}$")
        self.nothing_left()

    def test_note(self):
        """What the doctor of a store finds is a note."""
        os.makedirs("open/locks", 0o700)
        os.chmod("open", 0o1777)
        done = self.quick("-b", f"file:{os.getcwd()}/open/locks", "--scenario", "uncontended")
        self.assertLine("note  file: way to it: all users may write to .*/open; .*", done)

    def test_columns(self):
        """Tables fit 80 columns."""
        done = self.quick("--recipe", "all", "--scenario", "uncontended,handoff,shared",
                          "--repeat", "2")
        tables = [line for line in done.lines if re.match(" {9}|backend|file [a-z]+  ", line)]
        self.assertEqual(12, len(tables), done)
        self.assertEqual([], [line for line in tables if len(line) > 80])

    def test_csv_and_page(self):
        done = self.quick("--output", "csv", "--html", "page.html")
        self.assertRegex(done.lines[0], "^backend,recipe,scenario,")
        page = read("page.html")
        self.assertIn(f"<dd>{os.uname().nodename}, Linux {os.uname().release}", page)
        self.assertRegex(page, r"<dt>date</dt><dd>20[0-9-]{8} [0-9:]{5} UTC</dd>")
        self.assertRegex(page, rf"<dt>processors</dt><dd>{os.cpu_count()}\b")
        self.assertIn("Grants per second", page)
        self.assertRegex(done.lines[2], "^file,lease,handoff,4,")
        self.bench("-d", "200ms", "--html", "/nonexistent/page.html", wanted=73)

    def test_repeat(self):
        """--repeat: the median and the range, and each part."""
        words = ["--scenario", "handoff", "--repeat", "3"]
        done = self.quick(*words)
        self.assertIn("3 times, median ±range", done.out)
        self.assertLine(r"file lease +[0-9 .]+ ±[0-9]+% .*", done)
        seen = self.quick(*words, "--output", "json").json
        run, = seen["runs"]
        self.assertTrue(seen["pass"] and seen["complete"])
        self.assertEqual(3, len(run["grants_per_s_rounds"]))
        self.assertEqual(sorted(run["grants_per_s_rounds"])[1], run["grants_per_s"])
        self.assertGreater(run["latency_us"]["handoff"]["p99"], 0)
        self.assertGreaterEqual(run["seconds"], 0.6)

    def test_progress(self):
        """-P prints lines, whether there is a terminal or not."""
        done = self.bench("-d", "3s", "-c", "4", "--scenario", "handoff", "-P", "100ms",
                          "--output", "csv")
        self.assertRegex(done.err, r"progress: file lease handoff  [0-9.]+/3\.0s  [0-9 ]+/s  "
                         "err 0  overlaps 0")
        self.assertNotIn("\r", done.err)
        run = Terminal(self, "bench", "-d", "3s", "-c", "2", "--scenario", "handoff", "-P",
                       "100ms").shows("progress: file lease handoff")
        run.end(0)
        run.not_shown("\x1b[K")

    def test_terminal(self):
        """A line, redrawn, then removed; not with --no-progress, -q or TERM=dumb."""
        short = ["bench", "-c", "2", "--scenario", "handoff", "-d"]
        self.env["TERM"] = "xterm"
        run = Terminal(self, *short, "3s").shows("file lease handoff").shows("/3.0s")
        run.shows("err 0  overlaps 0").shows("HANDOFF: all clients want one key").end(0)
        run.not_shown("/3.0s")
        for quiet in "--no-progress", "-q":
            run = Terminal(self, *short, "300ms", quiet, "--output", "csv")
            run.shows("file,lease,handoff").end(0)
            self.assertNotIn("connecting", run.out)
            self.assertNotIn("\x1b", run.out)
        self.env["TERM"] = "dumb"
        run = Terminal(self, *short, "300ms", "--output", "csv")
        run.end(0)
        self.assertNotIn("connecting", run.out)


class Measured(Bench):
    def measured(self, *words, **more):
        run, = self.bench(*words, "--output", "json", **more).json["runs"]
        return run

    def test_no_exclusion(self):
        """A lock that does not exclude is detected at once, and ends the benchmark."""
        def broken(scenario):
            return self.bench("-b", "fake:?broken=1", "--scenario", scenario, "-d", "1h",
                              dlock=FAKE, wanted=1)
        done = broken("handoff")
        self.assertLine("FAIL  fake lease handoff: [0-9]+ overlaps.*", done)
        self.assertNotIn("PASS", done.out)
        broken("shared")
        broken("limit")
        self.bench("-b", "fake:", "--scenario", "handoff", "-d", "200ms", dlock=FAKE)

    def test_ops_and_rate(self):
        """--ops ends after so many grants, --rate keeps the given rate."""
        run = self.measured("-N", "500", "-c", "2", "--scenario", "handoff")
        self.assertEqual(500, run["grants"])
        # Never faster, however quick the machine is; slower, if it is busy.
        run = self.measured("-N", "20", "--rate", "10", "-c", "4", "--scenario", "uncontended")
        self.assertEqual(20, run["grants"])
        self.assertLessEqual(run["grants_per_s"], 12)

    def test_coordinated_omission(self):
        """With --rate a late start counts."""
        # One client, each hold of 50 ms, but a rate of 100 per second: the schedule falls behind,
        # and the delayed requests must show it.
        run = self.measured("-d", "1s", "--rate", "100", "-c", "1", "--hold", "50ms",
                            "--scenario", "uncontended")
        self.assertGreater(run["latency_us"]["acquire"]["max"], 300000)

    def test_crash(self):
        """Time until the next grant."""
        run = self.measured("--scenario", "crash")
        self.assertGreater(run["latency_us"]["takeover"]["max"], 0)
        self.assertLess(run["latency_us"]["takeover"]["max"], 20e6)
        self.nothing_left()

    def test_500_clients(self):
        run = self.measured("-c", "500", "-N", "50", "--op-timeout", "60s", "--ttl", "300s",
                            "--scenario", "handoff")
        self.assertEqual([500, 0, 0], [run[name] for name in ("clients", "errors", "overlaps")])
        self.nothing_left()


class Left(Bench):
    """What it leaves behind, and what it leaves alone."""

    def test_prefix(self):
        """One with keys below it is refused, and they stay."""
        self.dlock("run", "--key", "mine-1", "--", "true")
        self.refused(64, "--prefix", "bench", "--prefix", "mine-", "-d", "100ms")
        self.assertTrue(os.path.isdir("locks/mine-1"))
        self.quick("--prefix", "other-")
        self.assertEqual(["mine-1"], [name for name in os.listdir("locks") if name[0] != "."])

    def test_signal(self):
        """It prints the results so far, removes everything, dies of the signal."""
        run = self.start("bench", "-d", "60s", "--scenario", "handoff", "-P", "100ms")
        run.says("progress: file lease handoff")
        run.send(signal.SIGTERM).end(-15)
        self.assertIn("ended early by a signal", run.out)
        self.nothing_left()

    def test_ctrl_c(self):
        """At a terminal."""
        self.env["TERM"] = "xterm"
        run = Terminal(self, "bench", "-d", "60s", "-c", "2", "--scenario", "handoff")
        run.shows("/60.0s").type("\x03").shows("ended early by a signal").end(-2)
        self.nothing_left()

    def test_page(self):
        """A benchmark that fails leaves none, and the old one as it was."""
        self.needs_backend("redis")
        for old in "", "old\n":
            self.bench("-b", "redis://127.0.0.1:1", "--connect-timeout", "100ms", "--html",
                       "page.html", wanted=69)
            self.assertEqual(old, read("page.html"))
            self.assertEqual(bool(old), os.path.exists("page.html"))
            write("page.html", "old\n")
        self.quick("--html", "page.html")
        self.assertTrue(read("page.html").startswith("<!DOCTYPE html"))


harness.main()
