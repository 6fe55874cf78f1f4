# SPDX-License-Identifier: Apache-2.0
"""Containers that share a volume of `file:`: each has its own /proc and sees no process of the
others."""
import os, re, signal, subprocess, unittest
import parts

container = ["unshare", "-mpf", "--mount-proc"]


def can(words):
    return subprocess.run([*words, "true"], capture_output=True).returncode == 0


@unittest.skipUnless(can(container), "no PID and mount namespaces here")
class Volume(parts.Case):
    def pid_one(self, run):  # dlock, in its container the first process
        return parts.within("the container starts", lambda: parts.children(run.pid))[0]

    def begin(self, url, *words):
        run = self.run_dlock("-b", url, "--key", "k", *words, before=container)
        self.addCleanup(lambda: [os.kill(p, signal.SIGKILL) for p in parts.children(run.pid)])
        return run

    def test_killed(self):
        """The first process of a container is killed, and its job with it: the next container is
        granted the lock then."""
        for recipe in "lease", "flock":
            with self.subTest(recipe):
                os.mkdir(f"{self.locks}/{recipe}", 0o700)
                url = f"{self.file}/{recipe}?recipe={recipe}"
                first = self.begin(url, "--", *self.judged())
                first.event("acquired")
                second = self.begin(url, "--", *self.judged("exit 0"))
                second.event("waiting")
                self.tell("run", "-b", url, "--key", "k", "-n", "--", "true", wanted=[75],
                          before=container)
                parts.within("the job runs", self.runs)
                os.kill(self.pid_one(first), signal.SIGKILL)
                second.end(0)
                self.alone()

    def test_stopped(self):
        """A container that is stopped keeps the lock, however long, until it goes on or dies."""
        first = self.begin(self.file, "--ttl", "2s", "--", *self.judged())
        first.event("acquired")
        parts.within("the job runs", self.runs)
        os.kill(self.pid_one(first), signal.SIGSTOP)
        self.tell("run", "-b", self.file, "--key", "k", "-w", "3s", "--", *self.judged("exit 0"),
                  wanted=[75], before=container)
        os.kill(self.pid_one(first), signal.SIGKILL)
        self.begin(self.file, "--", *self.judged("exit 0")).end(0)
        self.alone()

    def test_inspect(self):
        """Whoever looks from elsewhere is not told to kill a process that only has the same
        number."""
        first = self.begin(self.file, "--", *self.judged())
        first.event("acquired")
        for before in (), container:
            said = self.tell("inspect", "k", "-b", self.file, before=before)
            self.assertIn("held", said)
            self.assertIsNone(re.search(r"\bkill\b.* [0-9]+", said), said)

    def test_one_process_number(self):
        """Both are PID 1 of their container: the second is no part of the first, neither nested nor
        its owner."""
        first = self.begin(self.file, "--", *self.judged())
        grant = first.event("acquired")
        self.assertEqual(self.pid_one(first) > 1, True, grant)
        held = {"DLOCK_HELD": "1", "DLOCK_KEY": "k"}
        self.tell("run", "-b", self.file, "--key", "k", "-n", "--", "true", wanted=[75],
                  before=container, env=held)


@unittest.skipUnless(can(["unshare", "-Ur"]), "no user namespaces here")
class Rootless(parts.Case):
    def test_excluded(self):
        """By the host, and from it; without a map all users are nobody."""
        mapped, unmapped = ["unshare", "-Ur"], ["unshare", "-U"]
        for holder, other, wanted in ([], mapped, [75, 77]), (mapped, [], [75]), ([], unmapped,
                                                                                 [75, 77]):
            with self.subTest(holder=holder, other=other):
                key = ["-b", self.file, "--key", "".join(["k", *holder, *other])]
                first = self.run_dlock(*key, "--", *self.judged(), before=holder)
                first.event("acquired")
                parts.within("the job runs", self.runs)
                self.tell("run", "-n", *key, "--", *self.judged("exit 0"), wanted=wanted,
                          before=other)
                self.alone()
                self.end_all()
                self.forget_runs()


parts.main()
