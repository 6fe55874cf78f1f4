#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock beside Apache Curator: recipe `curator` and InterProcessMutex, recipe `sequential` and
InterProcessReadWriteLock, in the same directory, both ways; also beside dlock's permits and the
lock-delay of a dlock that was killed."""
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from beside import Holder, Store, check, die_with_parent, main, missing, run  # noqa: E402

JARS = ["/usr/share/java/%s.jar" % name
        for name in ("curator-client", "curator-framework", "curator-recipes", "guava", "slf4j-api",
                     "zookeeper")]
MOMENT = 700  # ms, for locks that are expected to be busy


class Curator:
    def __init__(self, server):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "CuratorLocks.java")
        self.process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", ":".join(JARS), source, server.host],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=die_with_parent)
        check("Curator is connected", self.process.stdout.readline() == "ready\n")

    def ask(self, *words):
        self.begin(*words)
        return self.answer()

    def begin(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def acquire(self, kind, key, ms):
        return self.ask("acquire", kind, "/locks/" + key, ms) == "yes"

    def release(self, kind, key):
        return self.ask("release", kind, "/locks/" + key) == "released"

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


def excludes(server, curator, kind, recipe, *mode):
    """Curator's lock `kind` and dlock's, each while the other is held, and each after it."""
    key = "-".join((kind, recipe, *(m.strip("-") for m in mode)))
    what = "Curator's %s and dlock's %s %s" % (kind, recipe, " ".join(mode))
    check(what + ": Curator takes it", curator.acquire(kind, key, 20000))
    busy = run(server, recipe, "--key", key, *mode, "-n", "--", "true")
    check(what + ": dlock finds it busy", busy.returncode == 75, busy)
    waiter = Holder(server, recipe, "--key", key, *mode)
    check(what + ": Curator releases", curator.release(kind, key))
    waiter.holds()
    check(what + ": dlock has it then, and Curator does not",
          not curator.acquire(kind, key, MOMENT))
    curator.begin("acquire", kind, "/locks/" + key, 30000)
    check(what + ": dlock ends", waiter.end() == 0)
    check(what + ": Curator has it then", curator.answer() == "yes")
    check(what + ": and releases it", curator.release(kind, key))


def together(server, curator):
    """Readers of both."""
    check("Curator reads", curator.acquire("read", "together", 20000))
    beside = run(server, "sequential", "--key", "together", "-s", "-n", "--", "true")
    check("dlock reads beside it", beside.returncode == 0)
    reader = Holder(server, "sequential", "--key", "together", "-s")
    reader.holds()
    check("Curator releases", curator.release("read", "together"))
    check("Curator reads beside dlock", curator.acquire("read", "together", 20000))
    check("dlock ends", reader.end() == 0)
    curator.release("read", "together")


def permits(server, curator):
    """Several at once, on both sides of Curator's turn."""
    holders = [Holder(server, "sequential", "--key", "permits", "--limit", "3") for _ in range(2)]
    for h in holders:
        h.holds()
    check("two permits keep Curator's writer out", not curator.acquire("write", "permits", MOMENT))
    check("two permits keep Curator's reader out", not curator.acquire("read", "permits", MOMENT))
    check("one ends", holders[0].end() == 0)
    check("the other still keeps Curator's writer out",
          not curator.acquire("write", "permits", MOMENT))
    check("the other still keeps Curator's reader out",
          not curator.acquire("read", "permits", MOMENT))
    check("the other ends", holders[1].end() == 0)
    check("then Curator reads", curator.acquire("read", "permits", 20000))
    curator.release("read", "permits")
    excludes(server, curator, "read", "sequential", "--limit", "2")


def lock_delay(server, curator, kind, recipe):
    """A killed holder: Curator waits for its lock-delay, and not for ever."""
    key = "delay-" + kind
    holder = Holder(server, recipe, "--key", key, "--ttl", "8s", "--lock-delay", "4s")
    holder.holds()
    killed = time.monotonic()
    holder.process.send_signal(signal.SIGKILL)
    holder.process.wait()
    check("Curator's %s has what a killed dlock with --lock-delay held" % kind,
          curator.acquire(kind, key, 60000))
    check("and not before its lock-delay is over", time.monotonic() - killed >= 4)
    curator.release(kind, key)


def test():
    for jar in JARS:
        if not os.path.exists(jar):
            missing("Curator (libcurator-recipes-java: %s)" % jar)
    if not shutil.which("javac"):
        missing("a JDK (default-jdk-headless)")
    server = Store("zookeeper", "--as-installed")
    curator = Curator(server)
    excludes(server, curator, "mutex", "curator")
    excludes(server, curator, "write", "sequential")
    excludes(server, curator, "write", "sequential", "-s")
    excludes(server, curator, "read", "sequential")
    together(server, curator)
    lock_delay(server, curator, "read", "sequential")
    lock_delay(server, curator, "mutex", "curator")
    excludes(server, curator, "write", "sequential", "--limit", "2")
    permits(server, curator)
    curator.end()


main(test)
