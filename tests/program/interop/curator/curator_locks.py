#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock beside Apache Curator: recipe `curator` and InterProcessMutex, recipe `sequential` and
InterProcessReadWriteLock, in the same directory, both ways; also beside dlock's permits and the
lock-delay of a dlock that was killed."""
import os, shutil, signal, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402

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
            preexec_fn=beside.die_with_parent)
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("Curator is not connected")

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
        self.process.stdout.close()


class Curators(beside.Case):
    store, options = "zookeeper", ["--as-installed"]

    def setUp(self):
        for jar in JARS:
            if not os.path.exists(jar):
                beside.missing("Curator (libcurator-recipes-java: %s)" % jar)
        if not shutil.which("javac"):
            beside.missing("a JDK (default-jdk-headless)")
        super().setUp()
        self.curator = Curator(self.server)
        self.addCleanup(self.curator.end)

    def takes(self, kind, key, ms=20000):
        self.assertTrue(self.curator.acquire(kind, key, ms), "Curator does not take it")

    def finds_dlock(self, kind, key):
        self.assertFalse(self.curator.acquire(kind, key, MOMENT), "Curator takes it beside dlock")

    def gives(self, kind, key):
        self.assertTrue(self.curator.release(kind, key), "Curator does not release it")

    def excludes(self, kind, recipe, *mode):
        """Curator's lock `kind` and dlock's, each while the other is held, and each after it."""
        key = "-".join((kind, recipe, *(m.strip("-") for m in mode)))
        self.takes(kind, key)
        self.finds_it_busy(recipe, "--key", key, *mode)
        waiter = self.holder(recipe, "--key", key, *mode)
        self.gives(kind, key)
        self.token(waiter)
        self.finds_dlock(kind, key)
        self.curator.begin("acquire", kind, "/locks/" + key, 30000)
        waiter.go().end(0)
        self.assertEqual("yes", self.curator.answer(), "Curator does not have it then")
        self.gives(kind, key)

    def test_each_way(self):
        for row in (("mutex", "curator"), ("write", "sequential"), ("write", "sequential", "-s"),
                    ("read", "sequential"), ("write", "sequential", "--limit", "2"),
                    ("read", "sequential", "--limit", "2")):
            with self.subTest(row):
                self.excludes(*row)

    def test_readers(self):
        """Of both."""
        self.takes("read", "together")
        self.by_dlock("sequential", "--key", "together", "-s", "-n")
        reader = self.holder("sequential", "--key", "together", "-s")
        self.token(reader)
        self.gives("read", "together")
        self.takes("read", "together")
        reader.go().end(0)
        self.gives("read", "together")

    def test_permits(self):
        """Several at once keep Curator out, the last of them, too."""
        holders = [self.holder("sequential", "--key", "permits", "--limit", "3") for _ in range(2)]
        for held in holders:
            self.token(held)
        for held in holders:
            self.finds_dlock("write", "permits")
            self.finds_dlock("read", "permits")
            held.go().end(0)
        self.takes("read", "permits")
        self.gives("read", "permits")

    def test_lock_delay(self):
        """A killed holder: Curator waits for its lock-delay, and not for ever."""
        for kind, recipe in ("read", "sequential"), ("mutex", "curator"):
            with self.subTest(kind):
                key = "delay-" + kind
                holder = self.holder(recipe, "--key", key, "--ttl", "8s", "--lock-delay", "4s")
                self.token(holder)
                killed = time.monotonic()
                holder.send(signal.SIGKILL).end()
                self.takes(kind, key, 60000)
                self.assertGreaterEqual(time.monotonic() - killed, 4)
                self.gives(kind, key)


beside.main()
