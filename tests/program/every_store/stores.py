# SPDX-License-Identifier: Apache-2.0
"""For tests that run on each kind of store: $STORE is file, redis, redlock, zookeeper, etcd, mysql
or postgresql; one server for the tests of a file. Each test has a part of the store that was never
used."""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402

STORE = os.environ.get("STORE", "file")


class Case(harness.Case):
    """`part` is the name of its part of the store. `short` is the shortest ttl that `run` accepts
    without ?short_ttl=yes; `period`, in ms, is one in which a lease of 1 s is over."""
    number = 0

    def setUp(self):
        super().setUp()
        self.short, self.period = 4 if STORE == "zookeeper" else 2, 1500
        if STORE == "etcd":
            self.period = 4500
        if STORE == "file":
            return
        self.server = harness.fixture("mysql-shared" if STORE == "mysql" else STORE)
        Case.number += 1
        self.part = f"t{Case.number}"
        where = {"redis": f"/0?restart_grace=0&prefix={self.part}:", "zookeeper": f"/{self.part}",
                 "etcd": f"/{self.part}", "mysql": f"?prefix={self.part}:"}
        where["redlock"], where["postgresql"] = where["redis"], where["mysql"]
        self.env["DLOCK_BACKEND"] = self.server.url + where[STORE]

    @property
    def url(self):
        return self.env["DLOCK_BACKEND"]

    def with_item(self, item):
        return f"{self.url}{'&' if '?' in self.url else '?'}{item}"

    def needs_starts(self):
        """Skips where the recipe cannot note starts."""
        if self.key("--explain", "--once-per", "1h", "--", "true", wanted=None).status:
            self.skipTest("this recipe has no --once-per")

    def needs_last_run(self):
        self.dlock("run", "--key", "probe", "--", "true")
        if self.inspected("probe").get("last_run") is None:
            self.skipTest("this recipe does not keep the last run")


main = harness.main
