#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `set` and the Lock of redis-py on the same key exclude each other, both ways and
under contention.

usage: redis_py.py DLOCK    exit status 77: redis-server or python3-redis is not installed
                            (1 with CI=true)
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../measure/comparison"))
import stores  # noqa: E402

try:
    import redis
    from redis.lock import Lock
except ImportError:
    redis = None

DLOCK = sys.argv[1]


def missing(what):
    ci = os.environ.get("CI") == "true"
    print(("FAILED" if ci else "SKIPPED") + ": " + what + " is not installed", file=sys.stderr)
    sys.exit(1 if ci else 77)


class Server(stores.Redis):
    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="dlock-interop.")
        super().__init__(self.base + "/server")
        self.url = f"redis://127.0.0.1:{self.port}?recipe=set&restart_grace=0"
        self.client = redis.Redis(port=self.port)
        for _ in range(1000):
            try:
                self.client.ping()
                return
            except redis.exceptions.ConnectionError:
                time.sleep(0.005)
        raise RuntimeError("redis-server does not start")

    def end(self):
        self.kill()
        shutil.rmtree(self.base)


def dlock(server, *words, **more):
    verb, *rest = words
    return subprocess.run([DLOCK, verb, "-b", server.url, "-q", *rest],
                          capture_output=True, text=True, timeout=60, **more)


def check(what, condition, detail=""):
    if not condition:
        raise AssertionError(f"{what} {detail}")
    print("ok", what)


def redis_py_holds(server):
    lock = Lock(server.client, "nightly", timeout=30, blocking=False)
    check("redis-py takes the lock", lock.acquire())
    busy = dlock(server, "run", "--key", "nightly", "-n", "--", "true")
    check("dlock finds it busy", busy.returncode == 75, busy)
    seen = dlock(server, "inspect", "nightly")
    foreign = "held by another program" in seen.stdout + seen.stderr
    check("inspect shows a foreign holder", foreign, seen)
    waiter = subprocess.Popen(
        [DLOCK, "run", "-b", server.url, "-q", "--key", "nightly", "--", "true"])
    time.sleep(0.3)
    check("dlock waits", waiter.poll() is None)
    lock.release()
    check("dlock runs when redis-py has released", waiter.wait(10) == 0)


def redis_py_without_timeout(server):
    lock = Lock(server.client, "for-ever", blocking=False)
    check("redis-py takes a lock without timeout", lock.acquire())
    seen = dlock(server, "inspect", "for-ever")
    check("inspect says that it has no expiry", "no expiry" in seen.stdout + seen.stderr, seen)
    lock.release()


def dlock_holds(server):
    release = os.pipe()
    holder = subprocess.Popen([DLOCK, "run", "-b", server.url, "-q", "--key", "nightly", "--",
                               "sh", "-c", "echo $DLOCK_TOKEN; read go"],
                              stdin=release[0], stdout=subprocess.PIPE, text=True)
    token = int(holder.stdout.readline())
    lock = Lock(server.client, "nightly", timeout=5, blocking=False)
    check("redis-py finds dlock's lock", not lock.acquire())
    check("redis-py sees it as locked", lock.locked())
    check("and not as its own", not lock.owned())
    os.write(release[1], b"\n")
    check("dlock ends", holder.wait(10) == 0)
    lock = Lock(server.client, "nightly", timeout=5, blocking_timeout=5)
    check("redis-py takes it then", lock.acquire())
    server.client.delete("nightly")
    again = dlock(server, "run", "--key", "nightly", "--", "sh", "-c", "echo $DLOCK_TOKEN")
    check("dlock's tokens rise over redis-py's holds", int(again.stdout) > token)


def contention(server, each=40):
    """Lost updates of a counter in a file show an overlap."""
    counter = server.dir + "/counter"
    with open(counter, "w") as f:
        f.write("0")

    def bump():
        with open(counter) as f:
            n = int(f.read())
        time.sleep(0.001)
        with open(counter, "w") as f:
            f.write(str(n + 1))

    def python_side():
        client = redis.Redis(port=server.port)
        for _ in range(each):
            with Lock(client, "counter", timeout=20, sleep=0.005):
                bump()

    def dlock_side():
        for _ in range(each):
            done = dlock(server, "run", "--key", "counter", "--", "sh", "-c",
                         f"n=$(cat {counter}); sleep .001; echo $((n + 1)) >{counter}")
            if done.returncode != 0:
                raise AssertionError(done)

    failed = []

    def guarded(side):
        try:
            side()
        except BaseException as e:  # of a thread: reported at the end
            failed.append(e)

    threads = [threading.Thread(target=guarded, args=(side,))
               for side in (python_side, dlock_side, python_side, dlock_side)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check("no thread failed", not failed, failed)
    with open(counter) as f:
        n = int(f.read())
    check("no update was lost", n == 4 * each, f"{n} of {4 * each}")
    check("the lock is gone", not server.client.exists("counter"))


def main():
    if redis is None:
        missing("python3-redis")
    if stores.Redis.executable is None:
        missing("redis-server")
    server = Server()
    try:
        for test in (redis_py_holds, redis_py_without_timeout, dlock_holds, contention):
            test(server)
    finally:
        server.end()


main()
