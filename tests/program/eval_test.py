# SPDX-License-Identifier: Apache-2.0
"""`acquire --output env` without a lock: a line that fails when a shell evaluates it. What is wrong
with a command line alone is in pure/cli/command_line_test."""
import os, re, shutil, signal, subprocess
import harness
from harness import DLOCK, read, write

ACQUIRE = ["acquire", "--key", "k", "--output", "env"]


class Eval(harness.Case):
    def closed(self, status, *words, **more):
        """dlock ends with it, and its output is the line that says so."""
        done = self.dlock("acquire", *words, wanted=status, bound=20, **more)
        self.assertEqual(f"(exit {status})\n", done.out)

    def test_asked_for(self):
        """By a variable or a file."""
        write("env.toml", 'output = "env"\n')
        busy, file = ["-n", "--key", "k"], ["--config", "env.toml"]
        self.acquired("--key", "k")
        self.closed(75, *busy, env={"DLOCK_OUTPUT": "env"})
        self.closed(75, *busy, *file)
        self.assertEqual("", self.dlock("acquire", *busy, *file, "--output", "text",
                                        wanted=75).out)
        self.assertEqual("", self.dlock("run", *busy, "--", "true", wanted=75,
                                        env={"DLOCK_OUTPUT": "env"}).out)

    def test_without_a_lock(self):
        """Busy, by -n, by -w, with a status of its own; a store that cannot be reached."""
        self.acquired("--key", "k")
        rows = [(75, "-n"), (75, "-w 100ms"), (9, "-n -E 9"), (75, "--keep -n"), (75, "--hold -n"),
                (73, "-b file:/nonexistent/locks/of")]
        if self.built_with("redis"):
            rows.append((69, "-n -b redis://127.0.0.1:1"))
        for status, words in rows:
            with self.subTest(words):
                self.closed(status, "--key", "k", "--output", "env", *words.split())

    def test_signal_in_the_wait(self):
        """In each form."""
        self.acquired("--key", "k")
        for form in [], ["--keep"], ["--hold"]:
            for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT:
                with self.subTest(form, signal=number):
                    run = self.start(*ACQUIRE, *form)
                    self.until_waiting(1)
                    run.send(number)
                    status = run.end()
                    status = status if status >= 0 else 128 - status
                    self.assertEqual((128 + number, f"(exit {status})\n"), (status, run.out))
                    self.until_waiting(0)

    def test_signal_before(self):
        """One that comes before the lock was asked for."""
        os.mkfifo("settings", 0o600)
        run = self.start(*ACQUIRE, "--config", "settings")
        with open("settings", "w"):  # opened by dlock, which now reads it
            run.send(signal.SIGTERM)
            self.assertIn(run.end(), (143, -15))
        self.assertEqual("(exit 143)\n", run.out)

    def test_watched_process(self):
        """It ends before the lock was granted."""
        self.acquired("--key", "k")
        watched = subprocess.Popen(["sleep", "300"], env=self.env)
        run = self.start(*ACQUIRE, "--keep", "--watch-pid", str(watched.pid))
        self.until_waiting(1)
        watched.kill()
        watched.wait()
        run.end(75)
        self.assertEqual("(exit 75)\n", run.out)
        self.assertEqual("dlock: acquire: the process that --watch-pid names has ended: the lock "
                         "was not taken", run.err.splitlines()[-1])

    def test_reader(self):
        """One that has gone, or does not read, changes neither the status nor the time."""
        self.acquired("--key", "k")
        gone, writer = os.pipe()
        os.close(gone)
        reader, full = harness.full_pipe()
        for descriptor in writer, full:
            self.dlock(*ACQUIRE, "-n", stdout=descriptor, wanted=75, bound=20)
            os.close(descriptor)
        os.close(reader)

    def test_lost_later(self):
        """A lock that was taken and kept: the line comes after it."""
        run = self.start(*ACQUIRE, "--hold", stdin=subprocess.PIPE)
        run.prints("TTL_MS")
        self.is_held("k")
        self.dlock("release", "--force", "--yes", "--key", "k")
        run.end(123)
        self.assertEqual("(exit 123)", run.out.splitlines()[-1])
        self.program("sh", "-c", run.out, wanted=123)
        run.process.stdin.close()


def example_of(page):
    """Its lines from the one that takes the lock to the one that gives it back."""
    text = read(f"{harness.ROOT}/man/{page}").replace(r"\-", "-")
    return "".join(re.findall(r"(?ms)^grant=\$\(dlock acquire.*?^trap .*?\n", text))


class Manual(harness.Case):
    def test_example(self):
        """In each shell: with the lock, or with none of the steps."""
        os.mkdir("bin")
        os.symlink(DLOCK, "bin/dlock")
        self.env["PATH"] = f"{self.dir}/bin:{self.env['PATH']}"
        example = example_of("dlock-acquire.1")
        self.assertEqual(3, len(example.splitlines()))
        self.assertEqual(example, example_of("dlock.1"))
        free = example + 'echo "with $DLOCK_TOKEN"\ndlock check migrate --token "$DLOCK_TOKEN"\n'
        write("free.sh", free)
        write("busy.sh", free.replace("-w 10s", "-w 200ms"))
        # The old form stops with set -e, or where its status is asked for.
        old = 'eval "$(dlock acquire -n --key migrate --output env)"'
        write("asked.sh", f"{old} || exit; echo on\n")
        write("set_e.sh", f"set -e; {old}; echo on\n")
        for shell in "dash", "bash --posix", "bash", "ksh", "mksh", "zsh", "busybox sh":
            if shutil.which(shell.split()[0]) is None:
                continue
            with self.subTest(shell):
                done = self.program(*shell.split(), "free.sh")
                self.assertRegex(done.out, r"with [1-9][0-9]*\n\Z")
                self.is_free("migrate")
                handle = self.acquired("--key", "migrate")
                for script in "busy.sh", "asked.sh", "set_e.sh":
                    self.assertEqual("", self.program(*shell.split(), script, wanted=75).out)
                self.dlock("release", "migrate", "--handle", handle)


harness.main()
