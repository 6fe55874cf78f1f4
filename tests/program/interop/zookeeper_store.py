# SPDX-License-Identifier: Apache-2.0
"""What the tests beside other clients of ZooKeeper share: a server of their own, dlock, checks."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../measure/comparison"))
import stores  # noqa: E402
from stores import die_with_parent  # noqa: E402, F401

DLOCK = sys.argv[1]


def missing(what):
    ci = os.environ.get("CI") == "true"
    print(("FAILED" if ci else "SKIPPED") + ": " + what + " is not installed", file=sys.stderr)
    sys.exit(1 if ci else 77)


def need_zookeeper():
    if not os.path.exists(stores.ZOOKEEPER_JAR) or not shutil.which("java"):
        missing("ZooKeeper")


class Server(stores.Zookeeper):
    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="dlock-interop.")
        super().__init__(self.base + "/server")
        self.host = "127.0.0.1:%d" % self.port

    def end(self):
        self.kill()
        shutil.rmtree(self.base)


def command(server, recipe, verb, *rest):
    url = "zookeeper://%s/locks?recipe=%s&prefix=" % (server.host, recipe)
    return [DLOCK, verb, "-b", url, "-q", *rest]


def run(server, recipe, *rest):
    return subprocess.run(command(server, recipe, "run", "--ttl", "4s", *rest), capture_output=True,
                          text=True, timeout=60)


class Holder:
    """A dlock that holds until it is told to end."""

    def __init__(self, server, recipe, *options):
        self.process = subprocess.Popen(
            command(server, recipe, "run", "--ttl", "4s", *options, "--",
                    "sh", "-c", "echo $DLOCK_TOKEN; read go"),
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


def check(what, condition, detail=""):
    if not condition:
        raise AssertionError("%s %s" % (what, detail))
    print("ok", what, flush=True)


def until(condition, bound=30):
    end = time.monotonic() + bound
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("does not come to pass")
        time.sleep(0.01)
