#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `kazoo` and kazoo's Lock in the same directory exclude each other, both ways and
under contention."""
import os, signal, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402

try:
    from kazoo.client import KazooClient
    from kazoo.recipe.lock import Lock, ReadLock, WriteLock
except ImportError:
    KazooClient = None


class Kazoo(beside.Case):
    store, options = "zookeeper", ["--as-installed"]

    def setUp(self):
        if KazooClient is None:
            beside.missing("python3-kazoo")
        super().setUp()
        self.client = KazooClient(self.server.host, timeout=10)
        self.client.start(30)
        self.addCleanup(self.client.stop)

    def lock(self, key, kind=None):
        return (kind or Lock)(self.client, "/locks/" + key, "kazoo's")

    def nodes(self, key):
        return len(self.client.get_children("/locks/" + key))

    def test_kazoo_holds(self):
        key = ["--key", "nightly"]
        lock = self.lock("nightly")
        self.assertTrue(lock.acquire(timeout=10))
        self.finds_it_busy("kazoo", *key)
        self.assertEqual(1, self.nodes("nightly"), "it leaves nothing behind")
        waiter = self.run_dlock(*self.on("kazoo", *key), "--", "true")
        waiter.until("both are queued", lambda: self.nodes("nightly") == 2)
        self.assertIsNone(waiter.process.poll())
        self.assertEqual(2, len(lock.contenders()))
        lock.release()
        waiter.end(0)

    def test_dlock_holds(self):
        key = ["--key", "by-dlock"]
        holder = self.holder("kazoo", *key)
        token = self.token(holder)
        lock = self.lock("by-dlock")
        self.assertFalse(lock.acquire(blocking=False))
        taken = threading.Event()
        thread = threading.Thread(target=lambda: lock.acquire(timeout=20) and taken.set())
        thread.start()
        holder.until("both are queued", lambda: self.nodes("by-dlock") == 2)
        self.assertFalse(taken.is_set())
        holder.go().end(0)
        thread.join()
        self.assertTrue(taken.is_set())
        lock.release()
        self.assertGreater(self.next_token("kazoo", *key), token, "over kazoo's hold")

    def test_wrong_dialect(self):
        lock = self.lock("mixed")
        lock.acquire(timeout=10)
        mixed = self.by_dlock("curator", "--key", "mixed", "-n", wanted=64)
        self.assertIn("--recipe kazoo", mixed.err)
        lock.release()

    def test_readers_and_writers(self):
        """kazoo's WriteLock has the nodes of its Lock; those of its ReadLock dlock does not
        know."""
        key = ["--key", "rw"]
        write = self.lock("rw", WriteLock)
        self.assertTrue(write.acquire(timeout=10))
        self.finds_it_busy("kazoo", *key)
        write.release()
        holder = self.holder("kazoo", *key)
        self.token(holder)
        for kind in WriteLock, ReadLock:
            self.assertFalse(self.lock("rw", kind).acquire(blocking=False), kind)
        holder.go().end(0)
        read = self.lock("rw", ReadLock)
        self.assertTrue(read.acquire(timeout=10))
        refused = self.by_dlock("kazoo", *key, wanted=64)
        self.assertIn("__rlock__", refused.err)
        read.release()

    def test_permits(self):
        """Another dialect: dlock refuses a directory with kazoo's nodes in it; kazoo does not look
        at dlock's (backends/zookeeper/README.md)."""
        lock = self.lock("permits")
        lock.acquire(timeout=10)
        for mode in (["--limit", "2"], [], ["-s"]):
            mixed = self.by_dlock("sequential", "--key", "permits", *mode, "-n", wanted=64)
            self.assertIn("--recipe kazoo", mixed.err, mode)
        lock.release()

    def test_lock_delay(self):
        """A killed holder: kazoo waits for its lock-delay, and not for ever."""
        holder = self.holder("kazoo", "--key", "delay", "--ttl", "8s", "--lock-delay", "4s")
        self.token(holder)
        killed = time.monotonic()
        holder.send(signal.SIGKILL).end()
        lock = self.lock("delay")
        self.assertTrue(lock.acquire(timeout=60))
        self.assertGreaterEqual(time.monotonic() - killed, 4)
        lock.release()

    def test_contention(self):
        self.contend("kazoo", [lambda: self.lock("counter")], 15)


beside.main()
