# SPDX-License-Identifier: Apache-2.0
"""What the tests beside other clients of ZooKeeper have in common: a server of their own, dlock,
and checks."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DLOCK = sys.argv[1]
JAR = "/usr/share/java/zookeeper.jar"


def missing(what):
    ci = os.environ.get("CI") == "true"
    print(("FAILED" if ci else "SKIPPED") + ": " + what + " is not installed", file=sys.stderr)
    sys.exit(1 if ci else 77)


def need_zookeeper():
    if not os.path.exists(JAR) or not shutil.which("java"):
        missing("ZooKeeper")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Server:
    def __init__(self, tick=2000):
        self.dir = tempfile.mkdtemp(prefix="dlock-interop.")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.host = "127.0.0.1:%d" % s.getsockname()[1]
        with open(self.dir + "/zoo.cfg", "w") as conf:
            conf.write("tickTime=%d\ndataDir=%s\nclientPort=%s\n"
                       "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                       % (tick, self.dir, self.host.split(":")[1]))
        self.process = subprocess.Popen(
            ["java", "-Xms16m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
             "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no",
             "-cp", self.dir + ":" + JAR, "org.apache.zookeeper.server.ZooKeeperServerMain",
             self.dir + "/zoo.cfg"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir)


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
