# SPDX-License-Identifier: Apache-2.0
"""Memory and processor time are limited by a control group, of either version."""
import os, signal, unittest
import parts

root = "/sys/fs/cgroup"


class Group:
    """A control group with one limit, or SkipTest."""

    def __init__(self, test, controller, **limits):
        unified = controller in parts.read(root + "/cgroup.controllers").split()
        self.path = f"{root}/{'' if unified else controller + '/'}dlock-test-{os.getpid()}"
        try:
            os.mkdir(self.path)
        except OSError as why:
            raise unittest.SkipTest(f"no control group can be made: {why}")
        test.addCleanup(self.remove)
        for name, value in limits["v2" if unified else "v1"].items():
            try:
                self.write(name, value)
            except OSError as why:
                raise unittest.SkipTest(f"{name}: {why}")

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(value)

    def pids(self):
        return parts.read(self.path + "/cgroup.procs").split()

    def enter(self):
        return ["sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        for pid in self.pids():
            os.kill(int(pid), signal.SIGKILL)
        parts.within("the control group is empty", lambda: not self.pids())
        os.rmdir(self.path)


eater = ["python3", "-c",
         "import os, sys\nif len(sys.argv) > 1: os.fork()\nx = []\n"
         "while True: x.append(bytearray(os.urandom(1 << 20)))"]


class Memory(parts.Case):
    def eat(self, group_kill, *more):
        """The job is killed, the key is free, and no process is left."""
        v2 = {"memory.max": "40000000", "memory.swap.max": "0",
              "memory.oom.group": "1" if group_kill else "0"}
        group = Group(self, "memory", v1={"memory.limit_in_bytes": "40000000"}, v2=v2)
        held = self.run_dlock("-b", self.file, "--key", "k", "--", *eater, *more,
                              before=group.enter())
        held.end(-9)  # as the job, or with it
        if not group_kill:
            held.event("exit")
        self.run_dlock("-b", self.file, "--key", "k", "-w", "20s", "--",
                       *self.judged("exit 0")).end(0)
        parts.within("no process is left", lambda: not group.pids())

    def test_job(self):
        self.eat(False)

    def test_tree(self):  # of two processes one is left, and dlock waits until it is killed, too
        self.eat(False, "fork")

    def test_all_at_once(self):  # memory.oom.group kills dlock and its guard as well
        self.eat(True)


class Processor(parts.Case):
    def test_quota(self):
        """A twentieth of a processor: a lease of 4 s is kept, or lost in time, and never held
        twice."""
        group = Group(self, "cpu", v1={"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "5000"},
                      v2={"cpu.max": "5000 100000"})
        server = parts.Redis()
        job = self.judged("i=0; while [ $i -lt 8 ]; do sleep 1; i=$((i + 1)); done")
        held = self.run_dlock("-b", server.url, "--key", "k", "--ttl", "4s", "--", *job,
                              before=group.enter())
        parts.within("the job runs", self.runs)
        waiter = self.run_dlock("-b", server.url, "--key", "k", "-w", "50s", "--",
                                *self.judged("exit 0"))
        held.end(0, 123)
        waiter.end(0)
        self.alone()


parts.main()
