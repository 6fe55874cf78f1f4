# SPDX-License-Identifier: Apache-2.0
"""The harness, for cases beside other clients of the same locks."""
import os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
from harness import *  # noqa: E402, F401, F403

ITEMS = {"redis": "?restart_grace=0&recipe=", "postgresql": "?recipe=",
         "zookeeper": "/locks?prefix=&recipe="}


class Case(harness.Case):
    """`server`: one for all cases of a file, of the kind `store`."""
    store, options = "", ()

    def setUp(self):
        super().setUp()
        self.server = harness.fixture(self.store, *self.options)

    def on(self, recipe, *words):
        return ["-b", self.server.url + ITEMS[self.store] + recipe, *words]

    def by_dlock(self, recipe, *words, wanted=0):
        """A job that does nothing: granted, or with `wanted` refused."""
        return self.dlock("run", *self.on(recipe, *words), "--", "true", wanted=wanted)

    def finds_it_busy(self, recipe, *words):
        return self.by_dlock(recipe, *words, "-n", wanted=harness.BUSY)

    def holder(self, recipe, *words):
        """A dlock that holds until go()."""
        return self.run_dlock(*self.on(recipe, *words), "--", "sh", "-c",
                              "echo $DLOCK_TOKEN; read go", stdin=subprocess.PIPE)

    def token(self, holder):
        """Waits until it holds."""
        holder.prints("\n")
        return int(holder.out)

    def next_token(self, recipe, *words):
        return int(self.dlock("run", *self.on(recipe, *words), "--", "sh", "-c",
                              "echo $DLOCK_TOKEN").out)

    def contend(self, recipe, others, each):
        """Two of dlock and `others`, which make a lock of the key `counter`. Lost updates of a
        counter in a file show an overlap."""
        counter = self.dir + "/counter"
        harness.write(counter, "0")
        job = ["sh", "-c", 'n=$(cat "$1"); sleep 0.005; echo $((n + 1)) >"$1"', "sh", counter]

        def by_dlock():
            for _ in range(each):
                self.dlock("run", *self.on(recipe, "-q", "--key", "counter"), "--", *job)

        def by_other(make_lock):
            lock = make_lock()
            for _ in range(each):
                with lock:
                    subprocess.run(job, check=True)

        with ThreadPoolExecutor() as pool:
            sides = [pool.submit(by_dlock), pool.submit(by_dlock)]
            for side in [*sides, *(pool.submit(by_other, make) for make in others)]:
                side.result()
        self.assertEqual((2 + len(others)) * each, int(harness.read(counter)), "an update is lost")
