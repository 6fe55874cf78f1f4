# SPDX-License-Identifier: Apache-2.0
"""What the tests beside other clients share: dlock ($DLOCK) on a store, and checks that are printed
when they hold. Exit status 77: something is not installed (1 with CI=true)."""
import os
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from store import Store, die_with_parent, missing, within  # noqa: E402, F401

ITEMS = {"redis": "?restart_grace=0&recipe=", "postgresql": "?recipe=",
         "zookeeper": "/locks?prefix=&recipe="}


def check(what, condition, detail=""):
    if not condition:
        raise AssertionError(f"{what} {detail}")
    print("ok", what, flush=True)


def command(server, recipe, verb, *rest):
    url = server.url + ITEMS[server.kind] + recipe
    return [os.environ["DLOCK"], verb, "-b", url, "-q", *rest]


def dlock(server, recipe, verb, *rest):
    """To its end."""
    return subprocess.run(command(server, recipe, verb, *rest), capture_output=True, text=True,
                          timeout=60)


def run(server, recipe, *rest):
    return dlock(server, recipe, "run", *rest)


class Holder:
    """A dlock that holds until it is told to end."""

    def __init__(self, server, recipe, *options):
        self.process = subprocess.Popen(
            command(server, recipe, "run", *options, "--", "sh", "-c",
                    "echo $DLOCK_TOKEN; read go"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def holds(self):
        """Waits until it does; its token."""
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.write("\n")
        self.process.stdin.close()
        status = self.process.wait(30)
        self.process.stdout.close()
        return status


def contend(server, recipe, others, each):
    """Two of dlock and `others`, which make a lock of the key `counter`. Lost updates of a counter
    in a file show an overlap."""
    counter = server.directory + "/counter"
    with open(counter, "w") as f:
        f.write("0")
    job = ["sh", "-c", 'n=$(cat "$1"); sleep 0.005; echo $((n + 1)) >"$1"', "sh", counter]

    def by_dlock():
        for _ in range(each):
            run(server, recipe, "--key", "counter", "--", *job).check_returncode()

    def by_other(make_lock):
        lock = make_lock()
        for _ in range(each):
            with lock:
                subprocess.run(job, check=True)

    with ThreadPoolExecutor() as pool:
        sides = [pool.submit(by_dlock), pool.submit(by_dlock)]
        for side in [*sides, *(pool.submit(by_other, make) for make in others)]:
            side.result()
    with open(counter) as f:
        n, wanted = int(f.read()), (2 + len(others)) * each
    check("no update is lost under contention", n == wanted, f"{n} of {wanted}")


def main(test):
    try:
        test()
    except unittest.SkipTest as what:
        print("SKIPPED:", what, file=sys.stderr)
        sys.exit(77)
