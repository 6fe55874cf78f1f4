# SPDX-License-Identifier: Apache-2.0
"""`dlock run` while it waits, and without a wait."""
import fcntl, os, re, signal, socket, subprocess
import harness
from harness import boottime, read

PIPE = subprocess.PIPE
HELD = (rf"k is held by {re.escape(socket.gethostname())}:[0-9]+ \([a-z0-9_-]+\) for [0-9a-z.]+: "
        "the nightly backup")


class Wait(harness.Case):
    def hold(self, *options):
        """Holds the key until `go()`."""
        run = self.start_key("--reason", "the nightly backup", *options, "--", "sh", "-c",
                             "read go", stdin=PIPE)
        run.event("acquired")
        return run

    def waiters(self):
        return len(self.inspected("k")["waiters"])

    def test_busy(self):
        """75 or the status of -E, at once or after -w; a line that names the holder, or none."""
        self.hold()
        for options, status, line in (
                (("-n",), 75, rf"dlock: {HELD}; not waiting\n"),
                (("-w", "0"), 75, rf"dlock: {HELD}; not waiting\n"),
                (("-n", "-E", "9"), 9, rf"dlock: {HELD}; not waiting\n"),
                (("-n", "-E", "0"), 0, ""), (("-n", "-q"), 75, "")):
            with self.subTest(options):
                done = self.key(*options, "--", "touch", "ran", wanted=status)
                self.assertRegex(done.out + done.err, rf"\A{line}\Z")
        began = boottime()
        self.key("-w", "700ms", "--", "touch", "ran", wanted=75)
        self.assertGreaterEqual(boottime() - began, 0.7)
        self.not_run()

    def test_locked_state(self):
        """A state that another process has locked is no answer: 69, and the process is named."""
        self.key("--", "true")
        with open("locks/k/state", "r+b") as state:
            fcntl.flock(state, fcntl.LOCK_EX)
            for options, words in ((("-w", "700ms"), "state has been locked by process "),
                                   (("-n",), "state has been locked for 1000 ms by process ")):
                self.assertIn(f"{words}{os.getpid()}",
                              self.key(*options, "--", "touch", "ran", wanted=69).err)
        self.not_run()

    def test_lock_of_another_program(self):
        """Its process is named, no queue position, and no --force."""
        self.env["DLOCK_BACKEND"] += "?recipe=flock"
        self.key("--", "true")  # so that inspect lists the key
        with open("locks/k") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.key("-n", "--", "touch", "ran", wanted=75)
            self.assertRegex(done.err, rf"\Adlock: k is held by process {os.getpid()}, "
                             r"which is not dlock's; not waiting\n\Z")
            done = self.key("-w", "700ms", "--", "touch", "ran", wanted=75)
            self.assertRegex(done.err.splitlines()[0], "; waiting up to 700ms$")
            seen = self.dlock("inspect", "k")
            self.assertLine("holder +.*:[0-9]+, no token", seen)
            self.assertLine("end +not by --force: another program locked the file, .*", seen)
            self.assertLine(r"1 key, 1 held, \? waiting", self.dlock("inspect"))
        self.not_run()

    def test_flock_of_a_file_locked_with_fcntl(self):
        """recipe flock: the message names that file, which belongs to other programs."""
        with open("locks/k", "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            self.refused(69, f"{self.locks}/k: another process has locked the whole file", "run",
                         "-n", "-b", self.file + "?recipe=flock", "--key", "k", "--", "touch",
                         "ran")
        self.not_run()

    def test_flock_of_a_replaced_file(self):
        """recipe flock: a file that is replaced while it is waited for is not the lock any
        more."""
        def lock():
            held = open("locks/k", "a")
            self.addCleanup(held.close)
            fcntl.flock(held, fcntl.LOCK_EX)
            return held, os.fstat(held.fileno()).st_ino

        def waits_at(inode):
            return re.search(rf"(?m)-> FLOCK .*:{inode} ", read("/proc/locks"))

        first, inode = lock()
        waiter = self.start_key("-b", self.file + "?recipe=flock", "--", "touch", "ran")
        waiter.until("a waiter", lambda: waits_at(inode))
        os.rename("locks/k", "old")
        second, inode = lock()
        first.close()  # now the waiter has the lock of the old file
        waiter.until("the waiter at the new file",
                     lambda: os.path.exists("ran") or waits_at(inode))
        self.not_run()
        second.close()
        waiter.end(0)
        self.assertTrue(os.path.exists("ran"))

    def test_damaged_state(self):
        """A waiter reports it, and goes on waiting."""
        holder = self.hold("--op-timeout", "500ms")
        waiter = self.start_key("-w", "1h", "--", "true")
        waiter.until("a waiter", lambda: self.waiters() == 1)
        with open("locks/k/state", "r+b") as state:
            for at in 0, 1048576:
                os.pwrite(state.fileno(), b"not a state at all", at)
        holder.go()
        waiter.says("state: is damaged")
        os.unlink("locks/k/state")  # as the message advises, when no job runs under it
        waiter.end(0)

    def test_line(self):
        """After 500 ms, once, with holder, reason, bound and position."""
        holder = self.hold()
        first = self.start_key("-w", "30s", "--", "true")
        first.event("waiting")
        second = self.start_key("--", "true")
        second.says("(position 2)")
        first.says("k is held by")
        holder.go()
        second.end(0)
        first.end(0)
        self.assertEqual("waiting acquired job_dead released exit", first.told())
        self.assertRegex(first.err, rf"\Adlock: {HELD}; waiting up to 30s \(position 1\)\n\Z")
        self.assertRegex(second.err, rf"\Adlock: {HELD}; waiting \(position 2\)\n\Z")

    def test_several_keys(self):
        """The lines name the key in the way, not the first one of the command line."""
        self.hold("--once-per", "day")
        keys = "run", "--key", "daily", "--key", "k", "--once-per", "day"
        done = self.dlock(*keys, "-n", "--", "touch", "ran", wanted=75)
        self.assertRegex(done.err, rf"\Adlock: {HELD}; not waiting\n\Z")
        done = self.dlock(*keys, "-w", "700ms", "--", "touch", "ran", wanted=75)
        self.assertLine(f"dlock: {HELD}; waited 700ms", done.err)
        waiter = self.start(*keys, "--", "touch", "ran")
        waiter.says("waiting (position 1)")
        self.assertRegex(waiter.err, rf"\Adlock: {HELD}; waiting \(position 1\)\n\Z")
        waiter.send(signal.SIGTERM).end(-signal.SIGTERM)
        self.refused(75, "k is held by", *keys, "--max-waiters", "0", "--", "touch", "ran")
        self.not_run()

    def test_several_keys_started(self):
        """With --once-per, the line names the key that was started."""
        self.key("--once-per", "day", "--", "true")
        self.refused(75, "dlock: k was started ", "run", "--key", "daily", "--key", "k",
                     "--once-per", "day", "--", "touch", "ran")
        self.not_run()

    def test_max_waiters(self):
        """Busy at once when as many wait already, and no place in the queue is left."""
        holder = self.hold()
        crowded = "; {} wait already (--max-waiters {})"
        self.refused(75, crowded.format(0, 0), "run", "--key", "k", "--max-waiters", "0", "--",
                     "touch", "ran")
        waiters = [self.start_key("--max-waiters", "2", "--", "true") for _ in range(2)]
        for waiter in waiters:
            waiter.event("waiting")
        self.refused(75, crowded.format(2, 2), "run", "--key", "k", "--max-waiters", "2", "-w",
                     "1h", "--", "touch", "ran")
        self.assertEqual("", self.key("--max-waiters", "1", "-E", "0", "--", "touch", "ran").err)
        self.assertEqual(2, self.waiters())
        holder.go()
        for waiter in waiters:
            waiter.end(0)
        self.key("--max-waiters", "0", "--", "true")  # a free key
        self.not_run()
        self.refused(64, "--max-waiters: recipe flock of file has no queue", "run", "-b",
                     self.file + "?recipe=flock", "--key", "k", "--max-waiters", "1", "--", "true")
        self.refused(64, "--handle", "run", "--key", "k", "--handle", "h1:file.lease:H0",
                     "--max-waiters", "1", "--", "true")

    def test_no_line(self):
        """None when the lock comes sooner, none with -q."""
        for faults, options in ("grant_after=200ms", ()), ("grant_after=1200ms", ("-q",)):
            done = self.lease(*options, "--", "true", faults=faults)
            self.assertEqual("", done.out + done.err)

    def test_signals(self):
        """INT, TERM, HUP, QUIT while waiting: leaves the queue and dies of that signal."""
        holder = self.hold()
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
            with self.subTest(number):
                waiter = self.start_key("--", "touch", "ran")
                waiter.event("waiting")
                waiter.until("a waiter", lambda: self.waiters() == 1)
                waiter.send(number).end(-number)
                self.assertEqual(0, self.waiters())
        self.not_run()
        holder.go().end(0)
        self.key("-n", "--", "true")


class Unknown(harness.Case):
    """The store does not answer, or too late."""

    def test_outcome(self):
        """An unknown outcome never starts the command."""
        # A repeated request recognises its own grant, so it is granted, once.
        done = self.lease("-w", "3s", "--ttl", "4s", "--", "sh", "-c", 'echo "$DLOCK_TOKEN"',
                          faults="lose=acquire")
        self.assertGreater(int(done.out), 1000000)  # the token of the store
        # Without a second request: granted, perhaps, and not started.
        done = self.lease("-n", "--ttl", "4s", "--", "touch", "ran", faults="lose=acquire",
                          wanted=69)
        self.assertIn("no answer in time", done.err)
        self.not_run()

    def test_unreachable_at_the_start(self):
        """69, and the command is not run."""
        for fault, status, options in (
                ("unavailable", 69, ("--connect-timeout", "300ms")), ("unavailable", 69, ("-n",)),
                ("unavailable", 69, ("-w", "500ms")), ("denied", 77, ()),
                ("cannot_create", 73, ())):
            with self.subTest(fault=fault, options=options):
                done = self.lease(*options, "--", "touch", "ran", faults=f"fail_open={fault}",
                                  wanted=status)
                self.assertRegex(done.err, r"\Adlock: ")
        self.not_run()

    def test_late_start(self):
        """It is refused; dlock queues again, and the command runs once."""
        run = self.start_lease("--ttl", "2s", "--", "sh", "-c", "echo ran",
                               faults="grant_after=3s")
        run.event("waiting")
        guard = run.guard
        os.kill(guard, signal.SIGSTOP)
        # With the second renewal the first grant's time to end the command has passed; the guard
        # must not start it then.
        run.until("two renewals", lambda: run.renewals() >= 2)
        os.kill(guard, signal.SIGCONT)
        run.end(0)
        self.assertEqual("ran\n", run.out)
        self.assertRegex(run.told(),
                         r"acquired renewed renewed .*acquired .*job_dead released exit\Z")


harness.main()
