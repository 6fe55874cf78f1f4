#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# usage: hanging_exec.py DLOCK DLOCK_FAKE
# The command lies on a disk that hangs, so its exec does not return. Until it does, the process
# that is to become the job shares the memory of the guard (see job/child.hpp). The guard still
# forwards a signal, ends that process when dlock dies and, in time, when the lease or --max-run
# ends, or starts the command of --on-lost beside it. 77: it cannot be tested here.
import os, select, signal, subprocess, sys, tempfile
from disk import Disk, children, guards, within


def in_exec(run):
    """pids of the guard and of its child that hangs"""
    guard = within(10, "the guard exists", lambda: guards(run.pid))[0]
    child = within(10, "the child exists", lambda: children(guard))[0]
    # execve on x86-64, on aarch64
    within(10, "its exec hangs", lambda: number_of_call(child) in (59, 221))
    return guard, child


def number_of_call(pid):
    """of the system call that a process waits in; -1 while it runs"""
    with open(f"/proc/{pid}/syscall") as file:
        first = file.read().split()[0]
    return int(first) if first.isdigit() else -1


def gone(pin, seconds):
    return bool(select.select([pin], [], [], seconds)[0])


def check(name, good):
    print(f"{name}: {'ok' if good else 'FAILED'}")
    return good


dlock, fake = sys.argv[1:]
good = True
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
    disk = Disk("/bin/sleep", f"{directory}/disk")
    try:
        disk.hang()

        def start(program, store, *options):
            return subprocess.Popen([program, "run", "-b", store, "--key", "k", *options,
                                     "--", disk.path, "1000"], stderr=subprocess.DEVNULL)

        run = start(dlock, f"file://{directory}")
        guard, child = in_exec(run)
        run.terminate()
        good &= check("TERM is forwarded", run.wait(20) == -signal.SIGTERM and
                      not os.path.exists(f"/proc/{child}"))

        run = start(dlock, f"file://{directory}")
        guard, child = in_exec(run)
        pins = [os.pidfd_open(guard), os.pidfd_open(child)]
        run.kill()
        run.wait()
        good &= check("dlock dies", all(gone(pin, 20) for pin in pins))

        run = start(dlock, f"file://{directory}", "--max-run", "1s")
        good &= check("--max-run", run.wait(20) == 124)

        run = start(fake, "fake:", "--ttl", "4s")
        guard, child = in_exec(run)
        pin = os.pidfd_open(child)
        run.send_signal(signal.SIGSTOP)
        good &= check("the lease ends", gone(pin, 4))
        run.send_signal(signal.SIGCONT)
        good &= check("the status", run.wait(20) == 123)

        told = f"{directory}/told"
        run = start(fake, "fake:", "--ttl", "2s", "--on-lost", f"exec:echo $DLOCK_KEY >{told}")
        guard, child = in_exec(run)
        run.send_signal(signal.SIGSTOP)
        within(20, "the command of --on-lost has run",
               lambda: os.path.exists(told) and open(told).read() == "k\n")
        good &= check("--on-lost", number_of_call(child) in (59, 221))
        pins = [os.pidfd_open(guard), os.pidfd_open(child)]
        run.kill()
        run.wait()
        good &= check("and then dlock dies", all(gone(pin, 20) for pin in pins))
    finally:
        disk.go_on()
        disk.remove()
sys.exit(0 if good else 1)
