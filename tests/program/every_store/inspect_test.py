# SPDX-License-Identifier: Apache-2.0
"""What inspect shows of holders, on each kind of store."""
import os, re, socket, subprocess, unittest
import stores
from stores import STORE, harness

HOST = re.escape(socket.gethostname())
with_permits = unittest.skipIf(STORE == "redlock", "this recipe has no permits")


class Inspect(stores.Case):
    def keep(self, *words):
        self.acquired("--keep", "--watch-pid", str(os.getpid()), "--key", *words)

    @unittest.skipIf(STORE in ("redlock", "zookeeper", "etcd"),
                     "nothing is left there of a lease that has ended")
    def test_ended_lease(self):
        """Listed by --stale, shown with its holder, and free to take."""
        self.acquired("-b", self.with_item("short_ttl=yes"), "--key", "k", "--ttl", "200ms",
                      "--reason", "half way")
        self.acquired("--key", "live")
        self.until_free("k")
        self.listed("k  stale  0\n", "--stale", "-o", "KEY,STATE,HOLDERS")
        self.listed("live\n", "--held", "-o", "KEY")
        seen = self.dlock("inspect", "k")
        for line in ("state    stale, exclusive", f"holder +{HOST}:[0-9]+ .*",
                     " +lease has ended [0-9.]+[um]?s ago; the key can be taken",
                     " +reason half way"):
            self.assertLine(line, seen)
        self.assertNoLine("(force|revoke|kill) ", seen)
        self.assertNotIn("shown", seen.out)
        self.assertIn("k is not held",
                      self.dlock("release", "--key", "k", "--force", wanted=64).err)
        self.dlock("release", "--key", "k", "--revoke", "--wait", "10s", wanted=75)
        self.key("-n", "--", "true")
        self.listed("", "--stale", "-o", "KEY")

    @unittest.skipIf(STORE not in ("mysql", "postgresql"), "no tables")
    def test_doctor_of_another_recipe(self):
        """The tables of one recipe are not in the way of those of another."""
        self.key("--", "true")
        other = {"mysql": "get-lock", "postgresql": "advisory"}[STORE]
        self.assertNoLine("BAD .*", self.dlock("inspect", "--doctor", "-b",
                                               self.with_item(f"recipe={other}")))

    @unittest.skipIf(STORE != "zookeeper", "other stores say who may log in")
    def test_without_login(self):
        """Of nodes that are another's: how to log in."""
        harness.write("auth", "digest:u:canary\n")
        self.key("--auth-file", "auth", "--", "true")
        self.assertIn("(log in: ?auth_file=FILE)", self.key("-n", "--", "true", wanted=77).err)

    def test_free_again(self):
        """A key that was taken and is free again is not called never taken."""
        self.key("--", "true")
        more = r" \(this recipe keeps no record of a free key\)" if STORE == "zookeeper" else ""
        self.assertLine("state    free" + more, self.dlock("inspect", "k"))
        if STORE != "zookeeper":  # one process at a time can use a handle there
            self.dlock("release", "--key", "a", "--handle", self.acquired("--key", "a"))
            more = r" \(the backend has no record of this key\)" if STORE == "etcd" else ""
            self.assertLine("state    free" + more, self.dlock("inspect", "a"))

    def test_time_held(self):
        """A line about a wait counts from the grant, not from the holder's request. Where inspect
        does not know the time of the grant, the line says nothing."""
        def hold():
            return self.start_key("--", "sh", "-c", "read go", stdin=subprocess.PIPE)
        first = hold()
        first.event("acquired")
        second = hold()
        second.says("; waiting")  # 500 ms after its request
        before = harness.boottime()
        first.go()
        second.event("acquired")
        seen = self.dlock("inspect", "k").out
        line = self.key("-n", "--", "true", wanted=75).err
        most = harness.boottime() - before
        said = re.search(r"\Adlock: k is held by .*\)( for [0-9a-z.]+)?; not waiting\n\Z", line)[1]
        self.assertEqual("held for" in seen, said is not None, line)
        if said:
            unit = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
            held = sum(float(n) * unit[u] for n, u in re.findall("([0-9.]+)([a-z]+)", said))
            self.assertLess(held, most + 0.1, line)

    @unittest.skipIf(STORE in ("redlock", "zookeeper"), "their renewals write no text")
    def test_program_ended(self):
        """Of a holder whose program has ended: when, how, and what keeps the lock. The next renewal
        says it; on a file it is there at once."""
        os.mkfifo("gate")
        run = self.start_key("--ttl", f"{self.short}s", "--reason", "half way", "--", "sh", "-c",
                             "setsid sh -c 'echo $$; read go <gate' & read go; exit 3",
                             stdin=subprocess.PIPE)
        run.prints("\n")
        self.assertIsNone(self.holder()["program_ended"])
        member = {"pid": int(run.out), "name": "sh"}
        run.go().event("command_ended")
        ended = harness.within("inspect says it", lambda: self.holder()["program_ended"])
        self.assertEqual((3, None, [member]), tuple(
            ended[name] for name in ("exit_status", "signal", "kept_by")))
        self.assertEqual("half way", self.holder()["reason"])
        self.assertLine(f" +program ended [0-9.]+[um]?s ago with status 3; kept by "
                        rf"sh\[{member['pid']}\]", self.dlock("inspect", "k"))
        self.is_held("k")
        harness.write("gate", "go\n")
        run.end(3)

    @with_permits
    def test_permits(self):
        """How many of how many, and limits that differ."""
        self.keep("k", "--limit", "3")
        self.keep("k", "--limit", "3")
        seen = self.dlock("inspect", "k")
        self.assertLine("state    held, permit, 2 of 3 permits", seen)
        self.assertNotIn("differ", seen.out)
        self.assertLine("revoke +.* --revoke --wait 1m # asks all 2 holders", seen)
        self.assertEqual([3, 3], [holder["limit"] for holder in self.inspected("k")["holders"]])
        done = self.key("-n", "--limit", "2", "--", "true", wanted=75)
        self.assertIn("(one of --limit 3, and here it is --limit 2: use the same everywhere)",
                      done.err)
        self.start_key("--limit", "2", "--", "true")
        self.until_waiting(1)
        seen = self.dlock("inspect", "k")
        self.assertLine("state    held, permit, 2 permits", seen)
        self.assertLine(r"note +the limits differ \(2 by .*, 3 by .*\): each counts all holders "
                        "against its own; use the same everywhere", seen)
        self.assertEqual(2, self.inspected("k")["waiters"][0]["limit"])
        self.keep("full", "--limit", "1")
        done = self.dlock("run", "-n", "--key", "full", "--limit", "1", "--", "true", wanted=75)
        self.assertIn("(one of --limit 1); not waiting", done.err)

    @with_permits
    def test_shared_beside_permits(self):
        """It is pointed out."""
        self.keep("k", "--limit", "3")
        self.keep("k", "--shared")
        seen = self.dlock("inspect", "k")
        self.assertLine("note     a --shared lock beside --limit counts as one of the permits",
                        seen)
        self.assertLine("state +held, (permit|shared), 2 of 3 permits", seen)


stores.main()
