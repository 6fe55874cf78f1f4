# SPDX-License-Identifier: Apache-2.0
"""etcd answers requests, and no watches: a watch only makes things faster, so nothing depends on
it."""
import os
import parts, proxy

WATCH = b"POST /v3/watch"


class Watches(parts.Case):
    def setUp(self):
        super().setUp()
        self.store = parts.fixture("etcd")
        self.url = self.store.fresh(self._testMethodName)

    def behind(self, **how):
        """The URL that leads there, and the proxy."""
        between = proxy.Proxy(self.store.port, **how)
        self.addCleanup(between.end)
        return self.url.replace(f":{self.store.port}", f":{between.port}"), between

    def until_file(self):
        """A job that ends when there is a file `end`."""
        return ["sh", "-c", "until [ -e end ]; do sleep 0.05; done"]

    def end_job(self):
        with open(self.dir + "/end", "w"):
            pass

    def lasts(self, run):
        """Longer than a lease."""
        run.until("renewals", lambda: run.renewals() >= 5)
        self.end_job()
        run.end(0)
        self.tell("run", "-n", "-b", self.url, "--key", "a", "--", "true")

    def test_waiter(self):
        """It keeps its place, and gets the lock."""
        held = self.run_dlock("-b", self.url, "--key", "a", "--", *self.until_file())
        held.event("acquired")
        behind, between = self.behind(mute=WATCH)
        first = self.run_dlock("-b", behind, "--key", "a", "--ttl", "6s", "-w", "50s", "--", "sh",
                               "-c", "echo first >>order")
        first.until("its watch is asked for", lambda: between.muted)
        second = self.run_dlock("-b", self.url, "--key", "a", "--", "sh", "-c",
                                "echo second >>order")
        second.event("waiting")
        begin = parts.boottime()
        first.until("longer than its lease", lambda: parts.boottime() > begin + 7)
        self.end_job()
        first.end(0)
        second.end(0)
        self.assertEqual(parts.read(self.dir + "/order").split(), ["first", "second"])

    def test_holder_of_several_keys(self):
        behind, between = self.behind(mute=WATCH)
        held = self.run_dlock("-b", behind, "--key", "a", "--key", "b", "--key", "c", "--ttl", "6s",
                              "--", *self.until_file())
        held.until("its watches are asked for", lambda: between.muted)
        self.lasts(held)

    def test_holder_whose_server_takes_no_connection(self):
        behind, between = self.behind(most=1)
        held = self.run_dlock("-b", behind, "--key", "a", "--ttl", "6s", "--", *self.until_file())
        held.until("its watch is tried", lambda: between.waiting)
        self.lasts(held)

    def test_holder_whose_watch_works_is_told(self):
        """The watch begins a second after the grant."""
        behind, between = self.behind()
        held = self.run_dlock("-b", behind, "--key", "a", "--ttl", "60s", "--", *self.until_file())
        held.until("its watch is made", lambda: len(between.sockets) > 3)
        begin = parts.boottime()
        self.tell("release", "-b", self.url, "--key", "a", "--revoke")
        held.end(122)
        self.assertLess(parts.boottime(), begin + 16)  # a third of --ttl is 20 s


parts.main()
