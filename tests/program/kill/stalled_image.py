#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# usage: stalled_image.py DLOCK DLOCK_FAKE
# The program's file is on a disk that hangs, or that fails with EIO, and the kernel has taken back
# what it can of its pages, the guard's among them. Or the disk hangs from the first moment of the
# job, and nothing has been read ahead. Then dlock is killed, or it is stopped and its lease ends:
# the guard, which has never killed before, ends the job and its child in time, with a cgroup and
# without. 77: it cannot be tested here.
import os, select, signal, subprocess, sys, tempfile, time

from disk import Disk, children, field, guards, within


class Rest:
    """Whether no thread of two processes has run at 20 looks in a row."""

    def __init__(self, *pids):
        self.pids, self.seen, self.looks = pids, None, 0

    def __call__(self):
        now = []
        for pid in self.pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/status") as status:
                    now += [line for line in status if line.startswith(("State:", "voluntary"))]
        resting = now == self.seen and all("sleep" in line for line in now
                                           if line.startswith("State:"))
        self.seen, self.looks = now, self.looks + 1 if resting else 0
        return self.looks >= 20


def take_back(pid, image, disk):
    """What a system short of memory does to the pages of `image`: it takes them from all who have
    them mapped, but not those that are locked. The kernel is told, in the name of the file system,
    that they have changed there. Returns the KiB that are left in the process."""
    def mappings():  # [begin, end, offset, locked, KiB in memory] of what is read only
        found = []
        with open(f"/proc/{pid}/smaps") as lines:
            for word in map(str.split, lines):
                if "-" in word[0]:
                    ours = image in word[-1] and "w" not in word[1]
                    if ours:
                        begin, end = (int(part, 16) for part in word[0].split("-"))
                        found.append([begin, end, int(word[2], 16), False, 0])
                elif ours and word[0] == "Rss:":
                    found[-1][4] = int(word[1])
                elif ours and word[0] == "VmFlags:":
                    found[-1][3] = "lo" in word
        return found
    for begin, end, offset, locked, _ in mappings():
        if not locked:
            disk.forget(offset, end - begin)
    return sum(mapping[4] for mapping in mappings())


without_cgroup = [
    "unshare", "-m", "sh", "-c",
    'umount -l /sys/fs/cgroup/unified 2>/dev/null || umount -l /sys/fs/cgroup; exec "$@"', "sh"]


def job_dies(dlock, store, fault, ttl, directory, cgroup, disk_does):
    """Whether the job and its child are dead within the ttl after `fault` has hit dlock."""
    name = f"disk {disk_does}, {fault.name}, {'with' if cgroup else 'without'} cgroup"
    image = f"{directory}/{disk_does}.{fault.name}.{cgroup}"
    early = disk_does == "hangs from the start"  # the job stops it before it does anything else
    disk = Disk(dlock, image, **({"max_readahead": 0} if early else {}))
    script = (f"kill -STOP {disk.pid}; " if early else "") + "sleep 1000 & exec sleep 1000"
    run = None
    try:
        run = subprocess.Popen((([] if cgroup else without_cgroup) +
                                [disk.path, "run", "-b", store, "--ttl", f"{ttl}s", "--key", "k",
                                 "--", "sh", "-c", script]),
                               stderr=subprocess.DEVNULL)
        guard = within(10, "the guard exists", lambda: guards(run.pid))[0]
        job = within(10, "the job exists", lambda: children(guard))[0]
        child = within(10, "the job has a child", lambda: children(job))[0]
        within(10, "the guard has its second thread", lambda: field(guard, "Threads") == "2")
        within(20, "dlock and its guard are at rest", Rest(run.pid, guard))
        with open(f"/proc/{job}/cgroup") as groups:
            if not cgroup and "dlock-" in groups.read():
                raise SystemExit("the job has a cgroup after all")
        pins = [os.pidfd_open(job), os.pidfd_open(child)]
        left = "few" if early else take_back(guard, image, disk)
        disk.fail() if disk_does == "fails" else disk.hang()
        os.kill(run.pid, fault)
        began = time.monotonic()
        dead = all(select.select([pin], [], [], max(0, began + ttl - time.monotonic()))[0]
                   for pin in pins)
        print(f"{name}: job {'dead' if dead else 'alive'} {time.monotonic() - began:.3f} s later, "
              f"ttl {ttl} s; {left} KiB of the program in the guard")
        return dead
    finally:
        disk.go_on()
        if run:
            run.kill()  # the guard ends the job
            run.wait()
        disk.remove()


try:  # other programs' load does not count, for this one and those that it starts
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
except PermissionError:
    pass
dlock, fake = sys.argv[1:]
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
    dead = [job_dies(program, store, fault, 4, directory, cgroup, disk_does)
            for disk_does in ("hangs", "fails", "hangs from the start")
            for program, store, fault in ((dlock, f"file://{directory}", signal.SIGKILL),
                                          (fake, "fake:", signal.SIGSTOP))
            for cgroup in (True, False)]
sys.exit(0 if all(dead) else 1)
