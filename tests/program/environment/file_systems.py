# SPDX-License-Identifier: Apache-2.0
"""`file:` on file systems that are full, become read-only, or are layers, while a lock is held and
waited for. Each process sees the file system that is mounted in a mount namespace of the test."""
import ctypes, os, re, subprocess, unittest
import parts

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x20000


def mount(*words):
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        raise unittest.SkipTest("mount " + " ".join(words) + ": " + done.stderr.strip())


if libc.unshare(CLONE_NEWNS) or subprocess.run(["mount", "--make-rprivate", "/"],
                                               capture_output=True).returncode:
    print("skipped: no mount namespace of its own here")
    raise SystemExit(77)


class FileSystems(parts.Case):
    def mounted(self, *words):
        mount(*words, self.locks)
        self.addCleanup(subprocess.run, ["umount", "-l", self.locks])
        os.chmod(self.locks, 0o700)

    def hold(self, then="read line <fifo; exit 7"):
        os.mkfifo(self.dir + "/fifo")
        held = self.run_dlock("-b", self.file, "--key", "k", "--", *self.judged(then))
        parts.within("the job runs", self.runs)
        return held

    def writable(self):
        try:
            os.close(os.open(self.locks + "/probe", os.O_WRONLY | os.O_CREAT, 0o600))
            return True
        except OSError:
            return False

    def end_job(self):
        with open(self.dir + "/fifo", "w") as end:
            end.write("\n")

    def wait(self):
        waiter = self.run_dlock("-b", self.file, "--key", "k", "--", *self.judged("exit 0"))
        waiter.event("waiting")
        parts.within("it is in the queue",
                     lambda: re.search(r'"waiters":\s*\[\s*\{',
                                       self.tell("inspect", "-b", self.file, "-J", "k")))
        return waiter

    def handed_on(self, held, waiter):
        """The job ends: its status stands, and the waiter is next."""
        self.end_job()
        held.end(7)
        waiter.end(0)
        self.alone()

    def refused(self, key, *words, **more):
        said = self.tell("run", "-b", self.file, "--key", key, "-n", "--", "touch", "ran-after-all",
                         wanted=[69, 73, 77], **more)
        self.assertFalse(os.path.exists(self.dir + "/ran-after-all"))
        self.assertRegex(said, "^dlock: .*(" + "|".join(words) + ")")
        self.assertEqual(len(said.splitlines()), 1)

    def test_full(self):
        self.mounted("-t", "tmpfs", "-o", "size=1m", "none")
        held = self.hold()
        waiter = self.wait()
        with self.assertRaises(OSError), open(self.locks + "/filler", "wb", buffering=0) as file:
            while True:  # no wait: until it is full
                file.write(bytes(4096))
        self.refused("another", "No space left")
        self.handed_on(held, waiter)

    def test_no_inodes(self):
        self.mounted("-t", "tmpfs", "-o", "size=10m,nr_inodes=12", "none")
        held = self.hold()
        waiter = self.wait()
        with self.assertRaises(OSError):
            for n in range(20):
                os.mknod(f"{self.locks}/filler{n}")
        self.refused("another", "No space left")
        self.handed_on(held, waiter)

    def injected(self, call, what):  # dlock as a child of strace(1), which changes this call
        return {"before": ["strace", "-f", "-q", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                           f"inject={call}:{what}"]}

    @parts.traceable
    def test_quota(self):
        held = self.hold()
        waiter = self.wait()
        for call in "mkdirat", "mknodat", "fallocate":
            self.refused(f"k.{call}", "Disk quota exceeded", **self.injected(call, "error=EDQUOT"))
        self.handed_on(held, waiter)

    @parts.traceable
    def test_network(self):
        """Also a directory that was of this machine before."""
        held = self.hold()
        waiter = self.wait()
        for magic, name in ("6969000000000000", "NFS"), ("4655736500000000", "FUSE"):
            self.refused("k", name, **self.injected("fstatfs", f"poke_exit=@arg2={magic}"))
        self.handed_on(held, waiter)

    def test_read_only(self):
        """Whoever asks is refused; the job's status stands; once it can be written to, nothing is
        held."""
        self.mounted("-t", "tmpfs", "none")
        self.tell("run", "-b", self.file, "--key", "k", "--", "true")
        # Who holds has files open for writing, which only a layer above can make read-only.
        held = self.hold()
        if subprocess.run(["mount", "-o", "remount,ro", self.locks],
                          capture_output=True).returncode == 0:
            self.refused("another", "[Rr]ead-only")
        else:
            self.mounted("--bind", self.locks)
            mount("-o", "remount,ro,bind", self.locks)
            self.refused("another", "[Rr]ead-only")
            subprocess.run(["umount", "-l", self.locks], check=True)
        self.end_job()
        held.end(7)
        self.tell("run", "-b", self.file, "--key", "k", "-n", "--", "true")

    def test_emergency_read_only(self):
        """The kernel itself makes it so, for all, as after a fault of the disk."""
        image = self.dir + "/image"
        subprocess.run(["truncate", "-s", "16M", image], check=True)
        if subprocess.run(["mkfs.ext4", "-q", "-F", image], capture_output=True).returncode:
            raise unittest.SkipTest("no mkfs.ext4")
        self.mounted("-o", "loop,errors=remount-ro", image)
        held = self.hold()
        waiter = self.run_dlock("-b", self.file, "--key", "k", "--", *self.judged("exit 0"))
        waiter.event("waiting")
        done = subprocess.run(["sh", "-c", "mount -o remount,abort " + self.locks],
                              capture_output=True, text=True)
        if done.returncode:
            raise unittest.SkipTest("remount,abort: " + done.stderr.strip())
        parts.within("it is read-only", lambda: not self.writable())
        self.refused("another", "[Rr]ead-only", "Input/output")
        self.end_job()
        held.end(7)
        waiter.end(0, 69, 73)
        self.alone()

    def test_overlay(self):
        """As in a container without a volume: works, also when the directory lies in the lower
        layer and is copied up."""
        for name in "lower", "upper", "work":
            os.mkdir(f"{self.dir}/{name}", 0o700)
        tmp = self.dir + "/layers"
        os.mkdir(tmp)
        mount("-t", "tmpfs", "none", tmp)
        self.addCleanup(subprocess.run, ["umount", "-l", tmp])
        for name in "lower", "upper", "work":
            os.mkdir(f"{tmp}/{name}", 0o700)
        self.tell("run", "-b", f"file:{tmp}/lower", "--key", "k", "--", "true")
        self.mounted("-t", "overlay", "-o",
                     f"lowerdir={tmp}/lower,upperdir={tmp}/upper,workdir={tmp}/work", "none")
        held = self.hold()
        self.handed_on(held, self.wait())


parts.main()
