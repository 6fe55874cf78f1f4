#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `kazoo` and kazoo's Lock in the same directory exclude each other, both ways and under contention.

usage: kazoo_lock.py DLOCK    exit status 77: ZooKeeper or python3-kazoo is not installed (1 with CI=true)
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

try:
    from kazoo.client import KazooClient
    from kazoo.recipe.lock import Lock
except ImportError:
    KazooClient = None

DLOCK = sys.argv[1]
JAR = "/usr/share/java/zookeeper.jar"


def missing(what):
    ci = os.environ.get("CI") == "true"
    print(("FAILED" if ci else "SKIPPED") + ": " + what + " is not installed", file=sys.stderr)
    sys.exit(1 if ci else 77)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Server:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="dlock-interop.")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.host = "127.0.0.1:%d" % s.getsockname()[1]
        with open(self.dir + "/zoo.cfg", "w") as conf:
            conf.write("tickTime=200\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                       % (self.dir, self.host.split(":")[1]))
        self.process = subprocess.Popen(
            ["java", "-Xms16m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false",
             "-Dzookeeper.forceSync=no", "-cp", self.dir + ":" + JAR, "org.apache.zookeeper.server.ZooKeeperServerMain", self.dir + "/zoo.cfg"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def client(self):
        client = KazooClient(self.host, timeout=4)
        client.start(30)
        return client

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir)


def command(server, verb, *rest):
    return [DLOCK, verb, "-b", "zookeeper://%s/locks?recipe=kazoo" % server.host, "-q", *rest]


def dlock(server, verb, *rest):
    return subprocess.run(command(server, verb, "--ttl", "4s", *rest) if verb == "run" else command(server, verb, *rest),
                          capture_output=True, text=True, timeout=60)


def check(what, condition, detail=""):
    if not condition:
        raise AssertionError("%s %s" % (what, detail))
    print("ok", what, flush=True)


def until(condition, bound=20):
    end = time.monotonic() + bound
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("does not come to pass")
        time.sleep(0.01)


def kazoo_holds(server, client):
    lock = Lock(client, "/locks/nightly", "kazoo's")
    check("kazoo takes the lock", lock.acquire(timeout=10))
    busy = dlock(server, "run", "--key", "nightly", "-n", "--", "true")
    check("dlock finds it busy", busy.returncode == 75, busy)
    check("and leaves nothing behind", len(client.get_children("/locks/nightly")) == 1)
    waiter = subprocess.Popen(command(server, "run", "--ttl", "4s", "--key", "nightly", "--", "true"))
    until(lambda: len(client.get_children("/locks/nightly")) == 2)
    check("dlock waits", waiter.poll() is None)
    check("kazoo sees dlock among the contenders", len(lock.contenders()) == 2, lock.contenders())
    lock.release()
    check("dlock runs when kazoo has released", waiter.wait(20) == 0)


def dlock_holds(server, client):
    go = os.pipe()
    holder = subprocess.Popen(command(server, "run", "--ttl", "4s", "--key", "nightly", "--", "sh", "-c", "echo $DLOCK_TOKEN; read go"),
                              stdin=go[0], stdout=subprocess.PIPE, text=True)
    token = int(holder.stdout.readline())
    lock = Lock(client, "/locks/nightly", "kazoo's")
    check("kazoo finds dlock's lock", not lock.acquire(blocking=False))
    taken = threading.Event()
    thread = threading.Thread(target=lambda: lock.acquire(timeout=20) and taken.set())
    thread.start()
    until(lambda: len(client.get_children("/locks/nightly")) == 2)
    check("kazoo waits for dlock", not taken.is_set())
    os.write(go[1], b"\n")
    check("dlock ends", holder.wait(20) == 0)
    thread.join()
    check("kazoo takes it then", taken.is_set())
    lock.release()
    again = dlock(server, "run", "--key", "nightly", "--", "sh", "-c", "echo $DLOCK_TOKEN")
    check("dlock's tokens rise over kazoo's holds", int(again.stdout) > token)


def wrong_dialect(server, client):
    lock = Lock(client, "/locks/mixed", "kazoo's")
    lock.acquire(timeout=10)
    mixed = subprocess.run([DLOCK, "run", "-b", "zookeeper://%s/locks?recipe=curator" % server.host, "--ttl", "4s", "--key", "mixed", "-n", "--", "true"],
                           capture_output=True, text=True, timeout=60)
    check("another dialect is refused with a hint", mixed.returncode == 64 and "--recipe kazoo" in mixed.stderr, mixed)
    lock.release()


def contention(server, client, each=15):
    """Lost updates of a counter in a file show an overlap."""
    counter = server.dir + "/counter"
    with open(counter, "w") as f:
        f.write("0")
    script = 'n=$(cat "$1"); sleep 0.01; echo $((n + 1)) > "$1"'

    def by_dlock():
        for _ in range(each):
            subprocess.run(command(server, "run", "--ttl", "4s", "--key", "count", "--", "sh", "-c", script, "sh", counter), check=True)

    def by_kazoo():
        lock = Lock(client, "/locks/count", "kazoo's")
        for _ in range(each):
            with lock:
                subprocess.run(["sh", "-c", script, "sh", counter], check=True)

    threads = [threading.Thread(target=f) for f in (by_dlock, by_dlock, by_kazoo)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with open(counter) as f:
        check("no update is lost under contention", int(f.read()) == 3 * each)


def main():
    if KazooClient is None:
        missing("python3-kazoo")
    if not os.path.exists(JAR) or not shutil.which("java"):
        missing("ZooKeeper")
    server = Server()
    try:
        client = server.client()
        kazoo_holds(server, client)
        dlock_holds(server, client)
        wrong_dialect(server, client)
        contention(server, client)
        client.stop()
    finally:
        server.end()


main()
