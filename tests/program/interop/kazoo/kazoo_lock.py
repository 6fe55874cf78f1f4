#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `kazoo` and kazoo's Lock in the same directory exclude each other, both ways and
under contention."""
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402
from beside import Holder, check, command, run, within  # noqa: E402

try:
    from kazoo.client import KazooClient
    from kazoo.recipe.lock import Lock, ReadLock, WriteLock
except ImportError:
    KazooClient = None


def kazoo_holds(server, client):
    lock = Lock(client, "/locks/nightly", "kazoo's")
    check("kazoo takes the lock", lock.acquire(timeout=10))
    busy = run(server, "kazoo", "--key", "nightly", "-n", "--", "true")
    check("dlock finds it busy", busy.returncode == 75, busy)
    check("and leaves nothing behind", len(client.get_children("/locks/nightly")) == 1)
    waiter = subprocess.Popen(command(server, "kazoo", "run", "--key", "nightly", "--", "true"))
    within("both are queued", lambda: len(client.get_children("/locks/nightly")) == 2)
    check("dlock waits", waiter.poll() is None)
    check("kazoo sees dlock among the contenders", len(lock.contenders()) == 2, lock.contenders())
    lock.release()
    check("dlock runs when kazoo has released", waiter.wait(20) == 0)


def dlock_holds(server, client):
    holder = Holder(server, "kazoo", "--key", "nightly")
    token = holder.holds()
    lock = Lock(client, "/locks/nightly", "kazoo's")
    check("kazoo finds dlock's lock", not lock.acquire(blocking=False))
    taken = threading.Event()
    thread = threading.Thread(target=lambda: lock.acquire(timeout=20) and taken.set())
    thread.start()
    within("both are queued", lambda: len(client.get_children("/locks/nightly")) == 2)
    check("kazoo waits for dlock", not taken.is_set())
    check("dlock ends", holder.end() == 0)
    thread.join()
    check("kazoo takes it then", taken.is_set())
    lock.release()
    again = run(server, "kazoo", "--key", "nightly", "--", "sh", "-c", "echo $DLOCK_TOKEN")
    check("dlock's tokens rise over kazoo's holds", int(again.stdout) > token)


def wrong_dialect(server, client):
    lock = Lock(client, "/locks/mixed", "kazoo's")
    lock.acquire(timeout=10)
    mixed = run(server, "curator", "--key", "mixed", "-n", "--", "true")
    check("another dialect is refused with a hint",
          mixed.returncode == 64 and "--recipe kazoo" in mixed.stderr, mixed)
    lock.release()


def readers_and_writers(server, client):
    """kazoo's WriteLock has the nodes of its Lock; those of its ReadLock dlock does not know."""
    write = WriteLock(client, "/locks/rw", "kazoo's")
    check("kazoo writes", write.acquire(timeout=10))
    beside = run(server, "kazoo", "--key", "rw", "-n", "--", "true")
    check("dlock finds it busy", beside.returncode == 75)
    write.release()
    holder = Holder(server, "kazoo", "--key", "rw")
    holder.holds()
    check("kazoo's writer finds dlock's lock",
          not WriteLock(client, "/locks/rw", "kazoo's").acquire(blocking=False))
    check("so does its reader",
          not ReadLock(client, "/locks/rw", "kazoo's").acquire(blocking=False))
    check("dlock ends", holder.end() == 0)
    read = ReadLock(client, "/locks/rw", "kazoo's")
    check("kazoo reads", read.acquire(timeout=10))
    beside = run(server, "kazoo", "--key", "rw", "-n", "--", "true")
    check("dlock refuses a directory with readers of kazoo",
          beside.returncode == 64 and "__rlock__" in beside.stderr, beside)
    read.release()


def beside_permits(server, client):
    """Another dialect: dlock refuses a directory with kazoo's nodes in it; kazoo does not look at
    dlock's (backends/zookeeper/README.md)."""
    lock = Lock(client, "/locks/permits", "kazoo's")
    lock.acquire(timeout=10)
    for mode in (["--limit", "2"], [], ["-s"]):
        mixed = run(server, "sequential", "--key", "permits", *mode, "-n", "--", "true")
        check("sequential %s is refused beside kazoo's Lock" % " ".join(mode),
              mixed.returncode == 64 and "--recipe kazoo" in mixed.stderr, mixed)
    lock.release()


def lock_delay(server, client):
    """A killed holder: kazoo waits for its lock-delay, and not for ever."""
    holder = Holder(server, "kazoo", "--key", "delay", "--ttl", "8s", "--lock-delay", "4s")
    holder.holds()
    killed = time.monotonic()
    holder.process.kill()
    holder.process.wait()
    lock = Lock(client, "/locks/delay", "kazoo's")
    check("kazoo has what a killed dlock with --lock-delay held", lock.acquire(timeout=60))
    check("and not before its lock-delay is over", time.monotonic() - killed >= 4)
    lock.release()


def contention(server, client):
    beside.contend(server, "kazoo", [lambda: Lock(client, "/locks/counter", "kazoo's")], 15)


def test():
    if KazooClient is None:
        beside.missing("python3-kazoo")
    server = beside.Store("zookeeper", "--as-installed")
    client = KazooClient(server.host, timeout=10)
    client.start(30)
    for one in (kazoo_holds, dlock_holds, wrong_dialect, readers_and_writers, beside_permits,
                lock_delay, contention):
        one(server, client)
    client.stop()


beside.main(test)
