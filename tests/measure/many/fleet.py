# SPDX-License-Identifier: Apache-2.0
"""Many `dlock run` of one host: started, watched through the status events that all of them write
into one pipe, and reaped."""
import collections
import fcntl
import json
import os
import signal
import subprocess
import threading
import time

from store import die_with_parent

TASKS_OF_RUN = 3  # dlock's main thread and its keeper, and the guard
WAIT = "10m"  # none outlives this program by more


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fleet:
    def __init__(self, dlock, stderr):
        self.dlock, self.began = dlock, now()
        # What keeps the process group while none of them runs.
        self.leader = subprocess.Popen(
            ["sleep", "infinity"], preexec_fn=lambda: (os.setpgid(0, 0), die_with_parent())
        )
        self.events = []  # dicts, in the order of arrival
        self.counts = collections.Counter()  # of events by name
        self.started = {}  # by pid: (key, when)
        self.ended = {}  # by pid: exit status, negative if it died of a signal
        self.failed = 0  # of those, how many have another status than 0
        self.changed = threading.Condition()
        self.null = os.open("/dev/null", os.O_RDWR)
        self.said_by_dlock = stderr
        self.stderr = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.jobs_in, self.jobs_out = os.pipe()  # closed: the jobs that read it end
        source, self.sink = os.pipe()
        fcntl.fcntl(self.sink, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DLOCK_")}
        threading.Thread(target=self._read, args=(source,), daemon=True).start()
        threading.Thread(target=self._reap, daemon=True).start()

    def _read(self, source):
        with open(source, "rb") as lines:
            for line in lines:
                event = json.loads(line)
                with self.changed:
                    self.events.append(event)
                    self.counts[event["event"]] += 1
                    self.changed.notify_all()

    def _reap(self):
        while True:
            try:
                end = os.waitid(os.P_PGID, self.leader.pid, os.WEXITED)
            except ChildProcessError:
                return
            status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
            if end.si_pid == self.leader.pid:
                continue
            with self.changed:
                self.ended[end.si_pid] = status
                self.failed += status != 0
                self.changed.notify_all()

    def start(self, url, key, options, job, held=False):
        """One more. held: its job reads what end_jobs() closes."""
        arguments = [self.dlock, "run", "-b", url, "--key", key, "--status", "3", *options]
        when = now()
        pid = os.posix_spawn(
            self.dlock,
            [*arguments, "--", *job],
            self.env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self.jobs_in if held else self.null, 0),
                (os.POSIX_SPAWN_DUP2, self.null, 1),
                (os.POSIX_SPAWN_DUP2, self.stderr, 2),
                (os.POSIX_SPAWN_DUP2, self.sink, 3),
            ],
            setpgroup=self.leader.pid,
        )
        self.started[pid] = (key, when)
        return pid

    def end_jobs(self):
        os.close(self.jobs_out)
        self.jobs_out = None

    def until(self, true, seconds):
        """Waits until true() or as long; tells whether it is true."""
        with self.changed:
            return self.changed.wait_for(true, seconds)

    def said(self, event, count, seconds):
        """Until so many said that, or all are done that could; tells how many."""
        self.until(lambda: self.counts[event] + self.failed >= count, seconds)
        return self.counts[event]

    def last_words(self):
        """What dlock said last, of any of them."""
        with open(self.said_by_dlock) as f:
            return (f.readlines() or ["nothing"])[-1].strip()

    def all_ended(self, seconds):
        return self.until(lambda: len(self.ended) == len(self.started), seconds)

    def alive(self):
        return [pid for pid in self.started if pid not in self.ended]

    def failures(self):
        return collections.Counter(s for s in self.ended.values() if s != 0)

    def of(self, name):
        """The events of that name, by time."""
        with self.changed:
            chosen = [e for e in self.events if e["event"] == name]
        return sorted(chosen, key=lambda e: e["t"])

    def close(self):
        """Ends what still runs, by signal 15 and then 9, and waits for it."""
        if self.jobs_out is not None:
            self.end_jobs()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.alive():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            if self.all_ended(60):
                break
        self.leader.kill()
        os.close(self.sink)
        os.close(self.jobs_in)
        os.close(self.null)
        os.close(self.stderr)


def guard_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        children = f.read().split()
    return int(children[0]) if children else None


def memory_kib(pid):
    """(PSS, which counts shared pages once over all who have them; page tables)."""
    with open("/proc/%d/smaps_rollup" % pid) as f:
        pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    with open("/proc/%d/status" % pid) as f:
        tables = next(int(line.split()[1]) for line in f if line.startswith("VmPTE:"))
    return pss, tables


def run_memory(pids, sample=100):
    """KiB of one run, dlock and its guard without the job: (PSS, page tables), of a sample."""
    step = max(1, len(pids) // sample)
    figures = []
    for pid in pids[::step]:
        try:
            both = [memory_kib(p) for p in (pid, guard_of(pid)) if p]
            figures.append([sum(f) for f in zip(*both)])
        except (OSError, StopIteration, IndexError):
            pass  # it has just ended
    return [round(sum(f) / len(f)) for f in zip(*figures)] if figures else [0, 0]


def available_mib():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable")) / 1024


def tasks_free():
    """How many more tasks the kernel has numbers for."""
    with open("/proc/sys/kernel/pid_max") as f:
        most = int(f.read())
    with open("/proc/loadavg") as f:
        return most - int(f.read().split()[3].split("/")[1])
