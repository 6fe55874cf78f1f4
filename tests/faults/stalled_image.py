#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# usage: stalled_image.py DLOCK DLOCK_FAKE
# The program's file is on a disk that hangs, and what of it no process has mapped is gone from the
# page cache. Then dlock is killed, or it is stopped and its lease ends: the guard, which has never
# killed before, ends the job in time. 77: it cannot be tested here.
import os, select, signal, subprocess, sys, tempfile, time

if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
    print("skipped: needs root and /dev/fuse")
    sys.exit(77)
try:
    from fusepy import FUSE, FuseOSError, Operations
except ImportError:
    print("skipped: needs python3-fusepy")
    sys.exit(77)


class OneProgram(Operations):
    """A file system with one file, /dlock."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self.file).st_size

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": 0o040755, "st_nlink": 2}
        if path == "/dlock":
            return {"st_mode": 0o100755, "st_nlink": 1, "st_size": self.size}
        raise FuseOSError(2)

    def readdir(self, path, fh):
        return [".", "..", "dlock"]

    def read(self, path, size, offset, fh):
        return os.pread(self.file, size, offset)


def within(seconds, what, question):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = question()
        if answer:
            return answer
        time.sleep(0.01)
    raise SystemExit(f"not within {seconds} s: {what}")


def field(pid, name):
    with open(f"/proc/{pid}/status") as status:
        return next((line.split()[1] for line in status if line.startswith(name + ":")), "0")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def job_dies(dlock, store, fault, ttl, directory):
    """Whether the job is dead within the ttl after `fault` has hit dlock."""
    image = f"{directory}/{fault.name}"
    os.mkdir(image)
    disk = os.fork()
    if disk == 0:
        try:
            FUSE(OneProgram(dlock), image, foreground=True, nothreads=True, ro=True, fsname="dlock-test")
        finally:
            os._exit(1)
    run = None
    try:
        def mounted():
            if os.waitpid(disk, os.WNOHANG)[0] == disk:
                print("skipped: this kernel mounts no FUSE file system")
                sys.exit(77)
            return os.path.exists(f"{image}/dlock")
        within(10, "the file system is mounted", mounted)
        run = subprocess.Popen([f"{image}/dlock", "run", "-b", store, "--ttl", f"{ttl}s", "--key", "k", "--",
                                "sleep", "1000"], stderr=subprocess.DEVNULL)
        guard = within(10, "the guard exists", lambda: children(run.pid))[0]
        job = within(10, "the job exists", lambda: children(guard))[0]
        within(10, "the guard has locked its pages", lambda: field(guard, "VmLck") != "0")
        pin = os.pidfd_open(job)
        os.kill(disk, signal.SIGSTOP)
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1")
        os.kill(run.pid, fault)
        began = time.monotonic()
        dead = bool(select.select([pin], [], [], ttl)[0])
        print(f"{fault.name}: job {'dead' if dead else 'alive'} {time.monotonic() - began:.3f} s later, ttl {ttl} s")
        return dead
    finally:
        os.kill(disk, signal.SIGCONT)
        if run:
            run.kill()  # the guard ends the job
            run.wait()
        subprocess.run(["umount", "-l", image], stderr=subprocess.DEVNULL)
        os.kill(disk, signal.SIGKILL)
        try:
            os.waitpid(disk, 0)
        except ChildProcessError:
            pass


dlock, fake = sys.argv[1:]
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
    killed = job_dies(dlock, f"file://{directory}", signal.SIGKILL, 4, directory)
    stopped = job_dies(fake, "fake:", signal.SIGSTOP, 4, directory)
sys.exit(0 if killed and stopped else 1)
