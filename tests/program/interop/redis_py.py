#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `set` and the Lock of redis-py on the same key exclude each other, both ways and
under contention."""
import beside

try:
    import redis
    from redis.lock import Lock
except ImportError:
    redis = None


class RedisPy(beside.Case):
    store = "redis"

    def setUp(self):
        if redis is None:
            beside.missing("python3-redis")
        super().setUp()
        self.client = redis.Redis(port=self.server.port)
        self.addCleanup(self.client.close)

    def lock(self, key, **more):
        return Lock(self.client, key, **more)

    def test_redis_py_holds(self):
        lock = self.lock("nightly", timeout=30, blocking=False)
        self.assertTrue(lock.acquire())
        self.finds_it_busy("set", "--key", "nightly")
        seen = self.tell("inspect", *self.on("set"), "nightly")
        self.assertIn("held by another program", seen)
        waiter = self.run_dlock(*self.on("set", "--key", "nightly"), "--", "true")
        waiter.event("waiting")
        lock.release()
        waiter.end(0)

    def test_redis_py_without_timeout(self):
        lock = self.lock("for-ever", blocking=False)
        self.assertTrue(lock.acquire())
        self.assertIn("no expiry", self.tell("inspect", *self.on("set"), "for-ever"))
        lock.release()

    def test_dlock_holds(self):
        key = ["--key", "by-dlock"]
        holder = self.holder("set", *key)
        token = self.token(holder)
        lock = self.lock("by-dlock", timeout=5, blocking=False)
        self.assertFalse(lock.acquire())
        self.assertTrue(lock.locked())
        self.assertFalse(lock.owned())
        holder.go().end(0)
        lock = self.lock("by-dlock", timeout=5, blocking_timeout=5)
        self.assertTrue(lock.acquire())
        self.client.delete("by-dlock")
        self.assertGreater(self.next_token("set", *key), token, "over redis-py's hold")

    def test_contention(self):
        def lock():
            return Lock(redis.Redis(port=self.server.port), "counter", timeout=20, sleep=0.005)

        self.contend("set", [lock, lock], 40)
        self.assertFalse(self.client.exists("counter"))


beside.main()
