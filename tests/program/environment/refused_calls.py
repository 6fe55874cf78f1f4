# SPDX-License-Identifier: Apache-2.0
"""System calls that a container's filter refuses: old filters do not know new calls. dlock works
without them or says so in a line, and while it is stopped its job is dead before the lease ends."""
import ctypes, os, platform, signal, struct, unittest
import parts

EPERM, ENOSYS = 1, 38
failed = 69, 71, 73, 77, 78
calls = {"pidfd_open": 434, "clone3": 435, "openat2": 437, "renameat2": 316, "signalfd4": 289,
         "close_range": 436,
         "timerfd_create": 283, "memfd_create": 319, "prlimit64": 302, "statx": 332,
         "pidfd_send_signal": 424}
needed = "signalfd4", "timerfd_create", "clone3"  # the last one by glibc's threads, with EPERM


def refuse(number, error):
    """For this process and all that come of it: seccomp(2) with a filter of four instructions."""

    def filter():
        load, equal, end = 0x20, 0x15, 0x06
        program = struct.pack("HBBI" * 4, load, 0, 0, 0, equal, 0, 1, number, end, 0, 0,
                              0x50000 | error, end, 0, 0, 0x7FFF0000)
        text = ctypes.create_string_buffer(program, len(program))
        head = struct.pack("HxxxxxxQ", 4, ctypes.addressof(text))
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        if prctl(38, 1, 0, 0, 0) or prctl(22, 2, head, 0, 0):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
            os._exit(99)

    return {"preexec_fn": filter}


@unittest.skipUnless(platform.machine() == "x86_64", "the numbers of the calls are those of x86-64")
class RefusedCalls(parts.Case):
    def every(self):
        for name, number in calls.items():
            for error in EPERM, ENOSYS:
                yield name, refuse(number, error)

    def test_filter(self):
        program = "import os\ntry: os.pidfd_open(os.getpid())\nexcept OSError as e: print(e.errno)"
        self.assertEqual(self.tell("-c", program, dlock="python3",
                                   **refuse(calls["pidfd_open"], EPERM)), "1\n")

    def works_or_says(self, url):
        for name, filter in self.every():
            lock = ["-b", url, "--key", f"k.{name}"]
            said = self.tell("run", *lock, "--", "sh", "-c", "exit 7", wanted=[7, *failed],
                             **filter)
            self.assertRegex(
                said, r"^(dlock: .*: (Operation not permitted|Function not implemented)\n)?$")
            self.assertTrue(said == "" or name in needed, said)
            self.tell("run", *lock, "-n", "--", "true")
            said = self.tell("acquire", *lock, "--ttl", "1h", wanted=[0, *failed], **filter)
            if said.startswith("h1:"):
                self.tell("release", *lock, "--handle", said.strip(), **filter)

    def test_file(self):
        self.works_or_says(self.file)

    def test_file_of_a_group(self):
        os.chmod(self.locks, 0o2770)
        self.works_or_says(self.file)

    def test_redis(self):
        self.works_or_says(parts.Redis().url)

    def test_doctor(self):
        """It makes what the first lock makes, a FIFO, too."""
        words = ["inspect", "--doctor", "-b", self.file]
        self.assertIn("may make locks here", self.tell(*words, wanted=[0, 1]))
        said = self.tell(*words, wanted=[1], **refuse(259, EPERM))  # mknodat
        self.assertRegex(said, "BAD +permission +.*FIFO.*Operation not permitted")
        self.assertEqual([], os.listdir(self.locks))

    def test_stopped(self):
        """dlock is stopped: the guard ends the job before the lease ends, and the next one is
        alone."""
        url = parts.Redis().url
        for name, filter in self.every():
            held = self.run_dlock("-b", url, "--key", "k", "--ttl", "2s", "--", *self.judged(),
                                  **filter)
            parts.within("it runs or ends", lambda: self.runs() or held.process.poll() is not None)
            if held.process.poll() is None:
                os.kill(held.pid, signal.SIGSTOP)
                self.run_dlock("-b", url, "--key", "k", "-w", "30s", "--",
                               *self.judged("exit 0")).end(0)
                self.alone()
            held.process.kill()
            held.process.wait()
            self.forget_runs()

    def test_killed(self):
        """dlock is killed: its job goes with it."""
        for name, filter in self.every():
            held = self.run_dlock("-b", self.file, "--key", "k", "--", *self.judged(), **filter)
            parts.within("it runs or ends", lambda: self.runs() or held.process.poll() is not None)
            held.process.kill()
            self.run_dlock("-b", self.file, "--key", "k", "-w", "30s", "--",
                           *self.judged("exit 0")).end(0)
            self.alone()
            self.forget_runs()


parts.main()
