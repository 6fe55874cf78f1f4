#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `set` and the Lock of redis-py on the same key exclude each other, both ways and
under contention."""
import subprocess

import beside
from beside import check, dlock

try:
    import redis
    from redis.lock import Lock
except ImportError:
    redis = None


def redis_py_holds(server, client):
    lock = Lock(client, "nightly", timeout=30, blocking=False)
    check("redis-py takes the lock", lock.acquire())
    busy = dlock(server, "set", "run", "--key", "nightly", "-n", "--", "true")
    check("dlock finds it busy", busy.returncode == 75, busy)
    seen = dlock(server, "set", "inspect", "nightly")
    foreign = "held by another program" in seen.stdout + seen.stderr
    check("inspect shows a foreign holder", foreign, seen)
    waiter = subprocess.Popen(beside.command(server, "set", "run", "--status", "1", "--key",
                                             "nightly", "--", "true"), stdout=subprocess.PIPE)
    check("dlock waits", b'"waiting"' in waiter.stdout.readline())
    lock.release()
    check("dlock runs when redis-py has released", waiter.wait(60) == 0)
    waiter.stdout.close()


def redis_py_without_timeout(server, client):
    lock = Lock(client, "for-ever", blocking=False)
    check("redis-py takes a lock without timeout", lock.acquire())
    seen = dlock(server, "set", "inspect", "for-ever")
    check("inspect says that it has no expiry", "no expiry" in seen.stdout + seen.stderr, seen)
    lock.release()


def dlock_holds(server, client):
    holder = beside.Holder(server, "set", "--key", "nightly")
    token = holder.holds()
    lock = Lock(client, "nightly", timeout=5, blocking=False)
    check("redis-py finds dlock's lock", not lock.acquire())
    check("redis-py sees it as locked", lock.locked())
    check("and not as its own", not lock.owned())
    check("dlock ends", holder.end() == 0)
    lock = Lock(client, "nightly", timeout=5, blocking_timeout=5)
    check("redis-py takes it then", lock.acquire())
    client.delete("nightly")
    again = dlock(server, "set", "run", "--key", "nightly", "--", "sh", "-c", "echo $DLOCK_TOKEN")
    check("dlock's tokens rise over redis-py's holds", int(again.stdout) > token)


def contention(server, client):
    def lock():
        return Lock(redis.Redis(port=server.port), "counter", timeout=20, sleep=0.005)

    beside.contend(server, "set", [lock, lock], 40)
    check("the lock is gone", not client.exists("counter"))


def test():
    if redis is None:
        beside.missing("python3-redis")
    server = beside.Store("redis")
    client = redis.Redis(port=server.port)
    for one in (redis_py_holds, redis_py_without_timeout, dlock_holds, contention):
        one(server, client)


beside.main(test)
