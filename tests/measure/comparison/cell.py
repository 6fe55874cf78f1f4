# SPDX-License-Identifier: Apache-2.0
"""One tool in one scenario: its clients, and the faults."""
import asyncio
import os
import signal
import time

import measure
from store import die_with_parent

CLIENTS = 5
FREEZE = 10  # seconds


def boottime():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Cell:
    """One tool in one scenario."""

    def __init__(self, tool, scenario, seconds, job, directory):
        self.tool, self.scenario, self.seconds = tool, scenario, seconds
        self.ttl = tool.ttl or 2
        self.dir, self.key = directory, os.path.basename(directory)
        os.makedirs(directory)
        for name in ("records", "counter"):
            open(directory + "/" + name, "w").close()
        self.records = measure.Records(directory + "/records")
        self.job_program = job
        # The long jobs: longer than a lease, and in a frozen cell longer than the server is silent.
        self.long_ms = int((2.5 * self.ttl + (FREEZE if scenario == "frozen" else 0)) * 1000)
        self.job = [job, directory + "/records", directory + "/counter", str(self.long_ms)]
        self.wrappers = {}  # by client: "number.incarnation"
        self.ended = {}  # by client: ns when its wrapper was seen to have ended
        self.faults = 0

    async def client(self, number):
        """Starts the wrapper again whenever it ends."""
        for incarnation in range(10**9):
            name = "%d.%d" % (number, incarnation)
            began = time.monotonic()
            with open(self.dir + "/stderr", "ab") as err:
                self.wrappers[name] = wrapper = await asyncio.create_subprocess_exec(
                    *self.tool.command(self.key, self.job),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=err,
                    env={
                        **{k: v for k, v in os.environ.items() if not k.startswith("DLOCK_")},
                        "COMPARISON_CLIENT": name,
                    },
                    preexec_fn=die_with_parent
                )
            await wrapper.wait()
            self.ended[name] = boottime()
            del self.wrappers[name]
            if time.monotonic() - began < 0.1:
                await asyncio.sleep(0.1)

    async def holder(self, rest):
        """The wrapper of a job that wants to hold for `rest` seconds yet."""
        while True:
            now = boottime()
            child = self.records.read().holder(now)
            if child and child.client in self.wrappers and child.rest_ms(now) >= rest * 1000:
                return self.wrappers[child.client]
            await asyncio.sleep(0.02)

    async def paused(self):
        while True:
            wrapper = await self.holder(1.5 * self.ttl)
            wrapper.send_signal(signal.SIGSTOP)
            self.faults += 1
            try:
                await asyncio.sleep(self.ttl + 1)
            finally:
                if wrapper.returncode is None:
                    wrapper.send_signal(signal.SIGCONT)
            await asyncio.sleep(max(0.0, 4 - self.ttl))

    async def killed(self):
        while True:
            (await self.holder(1.5 * self.ttl)).kill()
            self.faults += 1
            await asyncio.sleep(5)

    async def frozen(self):
        for at in (1 / 4, 5 / 8):
            await self.reach(at * self.seconds)
            await self.holder(FREEZE + 1.5 * self.ttl)
            self.tool.server.freeze()
            self.faults += 1
            try:
                await asyncio.sleep(FREEZE)
            finally:
                self.tool.server.thaw()

    async def restarted(self):
        at = self.seconds / 4
        while True:
            await self.reach(at)
            await self.holder(1.5 * self.ttl)
            await asyncio.to_thread(self.tool.server.restart)
            self.faults += 1
            at += 20

    async def reach(self, seconds):
        await asyncio.sleep(self.began + seconds - time.monotonic())

    async def run(self):
        self.began = time.monotonic()
        tasks = [
            asyncio.create_task(c)
            for c in (*(self.client(n) for n in range(CLIENTS)), getattr(self, self.scenario)())
        ]
        try:
            # A task ends early only with a fault of this program.
            done, _ = await asyncio.wait(
                tasks, timeout=self.seconds, return_when=asyncio.FIRST_EXCEPTION
            )
            end = boottime()
            for task in done:
                task.result()
        finally:
            await self.stop(tasks)
        ended = {name: at for name, at in self.ended.items() if at <= end}
        return {
            "tool": self.tool.name,
            "ttl_s": self.tool.ttl,
            "scenario": self.scenario,
            "seconds": self.seconds,
            "faults": self.faults,
            **measure.figures(self.records.read(until=end), ended),
        }

    async def stop(self, tasks):
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = [w for w in self.wrappers.values() if w.returncode is None]
            for wrapper in left:
                wrapper.send_signal(signal.SIGCONT)
                wrapper.send_signal(number)
            if left:
                await asyncio.wait([asyncio.create_task(w.wait()) for w in left], timeout=8)
        self.kill_jobs()

    def kill_jobs(self):
        """Those that outlived their wrappers."""
        for child in self.records.read().children:
            try:
                if os.path.samefile("/proc/%d/exe" % child.pid, self.job_program):
                    os.kill(child.pid, signal.SIGKILL)
            except OSError:
                pass
