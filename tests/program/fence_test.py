# SPDX-License-Identifier: Apache-2.0
"""dlock fence: what compares tokens and refuses older ones."""
import os, re, resource, signal
import harness
from harness import DLOCK, children, kill, read, write


class Fence(harness.Case):
    def fence(self, token, *job, state="f", **more):
        return self.dlock("fence", "--state", state, "--token", str(token), "--",
                          *(job or ("true",)), **more)

    def refused_fence(self, status, text, token, *options, state="f"):
        self.refused(status, text, "fence", "--state", state, "--token", str(token), *options,
                     "--", "touch", "ran")
        self.not_run()

    def test_older_token(self):
        """It is refused, the same and a newer one are not."""
        self.assertEqual("five\n", self.fence(5, "echo", "five").out)
        self.refused_fence(123, "token 4 is older than 5", 4)
        self.fence(5)
        self.fence(18446744073709551615)
        self.fence(6, wanted=123)

    def test_status_and_token(self):
        """Of the command."""
        self.fence(5, "sh", "-c", "exit 7", wanted=7)
        self.fence(5, "/nonexistent", wanted=127)
        done = self.fence(9, "sh", "-c", "echo $DLOCK_TOKEN", env={"DLOCK_TOKEN": "9"})
        self.assertEqual("9\n", done.out)

    def start_fence(self, token):
        run = self.start("fence", "--state", "f", "--token", str(token), "--", "sh", "-c",
                         "echo began; exec sleep 100")
        run.prints("began")
        return run

    def test_noted_before_the_start(self):
        """The token is, and stays when all processes are killed."""
        run = self.start_fence(7)
        kill(run.pid, *children(run.pid))
        self.fence(6, wanted=123)

    @harness.traceable
    def test_on_the_disk(self):
        """The token is there before the command starts, even if the file already has it."""
        # A new file; one left by a dlock that may have been killed before it was on disk; newer.
        for token in 5, 5, 6:
            self.fence(token, "/bin/true", before=("strace", "-f", "-q", "-o", "calls", "-e",
                                                   "trace=fsync,fdatasync,pwrite64,execve"))
            before = read("calls").split('execve("/bin/true"')[0]
            self.assertEqual("fsync", re.findall(r"(?m)^[0-9]* *([a-z0-9]*)\(", before)[-1])

    def test_not_on_the_disk(self):
        """Without the token there no command runs."""
        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        self.fence(5, "touch", "ran", preexec_fn=no_space, wanted=73)
        self.not_run()
        self.fence(4)

    def test_one_after_the_other(self):
        """Calls for one file."""
        job = "mkdir inside && sleep 0.01 && rmdir inside || touch overlap"
        runs = [self.start("fence", "--state", "f", "--token", "3", "--", "sh", "-c", job)
                for _ in range(20)]
        for run in runs:
            run.end(0)
        self.alone()
        self.start_fence(3)
        self.refused_fence(75, "another command", 3, "-n")
        self.refused_fence(9, "another command", 3, "-w", "50ms", "-E", "9")

    @harness.traceable
    def test_replaced_again_and_again(self):
        """Such a file does not prolong the wait."""
        file = self.dir + "/f"
        self.fence(5, state=file)
        # Each third access to the file is the one by name, after it was locked.
        done = self.program("strace", "-f", "-q", "-o", "calls", "-P", file, "-e",
                            "inject=newfstatat:error=ENOENT:when=3+3", DLOCK, "fence", "--state",
                            file, "--token", "5", "-w", "300ms", "--", "touch", "ran",
                            wanted=75, bound=20)
        self.assertIn("is replaced again", done.err)
        self.not_run()

    def test_second_hard_link(self):
        """It is refused."""
        write("other")
        os.link("other", "f")
        self.refused_fence(77, "hard links", 5)
        self.assertEqual("", read("other"))

    def test_no_file(self):
        """What is none is refused, and not waited for."""
        os.mkfifo("fifo")
        for state in "fifo", "/dev/null", "/dev/zero":
            self.refused_fence(77, "is not a regular file", 5, state=state)
        self.refused_fence(73, "Is a directory", 5, state=".")

    def test_damaged_slot(self):
        """It leaves the older record; a foreign file is refused."""
        self.fence(7)
        self.fence(8)
        with open("f", "r+b") as file:  # in the record of token 8: a torn write
            os.pwrite(file.fileno(), b"x", 4110)
        self.fence(6, wanted=123)
        self.fence(7)
        write("diary", "dear diary\n")
        os.symlink("f", "link")
        for status, text, state in ((78, "something else", "diary"), (73, "--state", "no/such/dir"),
                                    (77, "--state", "link")):
            self.refused_fence(status, text, 9, state=state)

    def test_newer_dlock(self):
        """It has written there: refused, though the older record beside it is readable."""
        self.fence(7)
        self.fence(9)
        with open("f", "r+b") as file:
            os.pwrite(file.fileno(), b"2", 4096 + 11)
        self.refused_fence(78, "was written by a newer dlock (dlock-fence2...)", 8)


harness.main()
