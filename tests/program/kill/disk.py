# SPDX-License-Identifier: Apache-2.0
"""A program on a disk that hangs or fails, for the tests beside this file. Ends with 77 where that
cannot be made."""
import ctypes, os, signal, struct, subprocess, sys, time

if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
    print("skipped: needs root and /dev/fuse")
    sys.exit(77)
try:
    from fusepy import FUSE, FuseOSError, Operations
except ImportError:
    print("skipped: needs python3-fusepy")
    sys.exit(77)


class OneProgram(Operations):
    """A file system with one file, /program."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self.file).st_size

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": 0o040755, "st_nlink": 2}
        if path == "/program":
            return {"st_mode": 0o100755, "st_nlink": 1, "st_size": self.size}
        raise FuseOSError(2)

    def readdir(self, path, fh):
        return [".", "..", "program"]

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
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((line.split()[1] for line in status if line.startswith(name + ":")), "")
    except FileNotFoundError:
        return ""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def guards(pid):
    return [child for child in children(pid) if field(child, "Name") == "lock-guard"]


class Disk:
    """One program on a file system whose process can be stopped: `path` is the program."""

    def __init__(self, program, directory, **options):
        os.mkdir(directory)
        self.directory, self.path = directory, f"{directory}/program"
        self.pid = os.fork()
        if self.pid == 0:
            try:
                FUSE(OneProgram(program), directory, foreground=True, nothreads=True, ro=True,
                     fsname="dlock-test", **options)
            finally:
                os._exit(1)
        within(10, "the file system is mounted", self.mounted)

    def mounted(self):
        if os.waitpid(self.pid, os.WNOHANG)[0] == self.pid:
            print("skipped: this kernel mounts no FUSE file system")
            sys.exit(77)
        return os.path.exists(self.path)

    def forget(self, offset, length):
        """The kernel drops these bytes of the program, wherever they are mapped:
        FUSE_NOTIFY_INVAL_INODE of the file, which is node 2."""
        pidfd = os.pidfd_open(self.pid)
        device = next(int(fd) for fd in os.listdir(f"/proc/{self.pid}/fd")
                      if os.readlink(f"/proc/{self.pid}/fd/{fd}") == "/dev/fuse")
        copy = ctypes.CDLL(None).syscall(438, pidfd, device, 0)  # pidfd_getfd
        os.write(copy, struct.pack("=IiQQqq", 40, 2, 0, 2, offset, length))
        os.close(copy)
        os.close(pidfd)

    def hang(self):
        os.kill(self.pid, signal.SIGSTOP)

    def fail(self):  # every read; it is waited for in remove()
        os.kill(self.pid, signal.SIGKILL)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def remove(self):
        subprocess.run(["umount", "-l", self.directory], stderr=subprocess.DEVNULL)
        os.kill(self.pid, signal.SIGKILL)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
