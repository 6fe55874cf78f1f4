# SPDX-License-Identifier: Apache-2.0
"""What dlock says and proposes is true: where a dlock was killed, and in nested runs."""
import os, signal
import parts


class Killed(parts.Case):
    def test_a_lease_expires_by_itself(self):
        store = ["-b", parts.fixture("redis").fresh("lease")]
        run = self.run_dlock(*store, "--ttl", "600s", "--key", "k", "--", "sleep", "600")
        run.event("acquired")
        os.kill(run.pid, signal.SIGKILL)
        run.process.wait()
        seen = self.tell("inspect", *store, "k")
        self.assertRegex(seen, r"(?m)^ +its dlock is no longer running; the lease expires in "
                         r"[0-9msh]+ by itself$")
        self.assertNotRegex(seen, "(?m)^(revoke|kill) ")
        said = self.tell("release", *store, "--key", "k", "--revoke", wanted=[64])
        self.assertIn("nobody listens for k: the dlock of ", said)


class Misspelt(parts.Case):
    """A directory whose parent is missing, too: one error is one line."""

    def test_a_lock_says_why_it_made_nothing(self):
        at = f"file:{self.dir}/no/no"
        for verb, more in (("run", ["--", "true"]), ("acquire", [])):
            said = self.tell(verb, "-b", at, "--key", "k", *more, wanted=[73])
            self.assertRegex(said, "^dlock: [^\n]*does not exist either[^\n]*\n$")

    def test_those_that_look_warn(self):
        for words in ["inspect"], ["inspect", "k"], ["run", "--explain", "--key", "k"]:
            said = self.tell(*words, "-b", f"file:{self.dir}/no/no",
                             *(["--", "true"] if "run" in words else []))
            self.assertIn(f"{self.dir}/no/no does not exist, and neither does", said)


class Nested(parts.Case):
    def nested(self, outer, inner, wanted=(0,)):
        return self.tell("run", *outer, "--", parts.DLOCK, "run", *inner, "--", "true",
                         wanted=wanted)

    def test_the_same_directory_by_another_path(self):
        os.symlink(self.dir, self.dir + "/link")
        other = ["-b", f"file:{self.dir}/link/locks", "--key", "l"]
        self.assertEqual(self.nested(["-b", self.file, "--key", "k"], other), "")
        os.mkdir(self.dir + "/others", 0o700)
        other = ["-b", f"file:{self.dir}/others", "--key", "l"]
        self.assertIn("know nothing of each other",
                      self.nested(["-b", self.file, "--key", "k"], other))

    def test_more_keys_than_a_variable_can_hold(self):
        """Refused before a key of the inner run is locked."""
        keys = [[f"--key={which}{i:02}{'é' * 98}" for i in range(64)] for which in "ab"]
        said = self.nested(["-b", self.file, *keys[0]], ["-b", self.file, *keys[1]], wanted=[64])
        self.assertIn("run: --key: DLOCK_GRANTS needs ", said)
        self.assertFalse([name for name in os.listdir(self.locks) if name.startswith("b")])


class Keeper(parts.Case):
    def test_its_caller_ends_while_it_waits(self):
        """Nobody gave --watch-pid, so that the message does not name it."""
        self.run_dlock("-b", self.file, "--key", "k", "--", "sleep", "600").event("acquired")
        script = f'"$0" acquire --keep -b {self.file} k 2>err & echo $! >pid; wait'
        run = parts.subprocess.Popen(["setsid", "-w", "sh", "-c", script, parts.DLOCK],
                                     cwd=self.dir, env=parts.clean)
        self.addCleanup(run.wait)
        pid = int(parts.within("it runs", lambda: parts.read(self.dir + "/pid").strip()))
        parts.within("it waits", lambda: "is held" in parts.read(self.dir + "/err"))
        caller = int(parts.read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[1])
        os.kill(caller, signal.SIGKILL)
        parts.within("it says so", lambda: "the caller has ended" in parts.read(self.dir + "/err"))


if __name__ == "__main__":
    parts.main()
