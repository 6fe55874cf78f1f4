# SPDX-License-Identifier: Apache-2.0
"""What dlock says and proposes is true where a dlock was killed, and where others hold."""
import os, re, shutil, signal, subprocess
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
                         r"[0-9.msh]+ by itself$")
        self.assertNotRegex(seen, "(?m)^(revoke|kill) ")
        said = self.tell("release", *store, "--key", "k", "--revoke", wanted=[64])
        self.assertIn("no process would read a request for k: the dlock of ", said)


class Foreign(parts.Case):
    """What inspect proposes where another program holds works when it is pasted."""

    def another(self, *words):
        """A program that says when it holds, in the background."""
        other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 cwd=self.dir, env=parts.clean, start_new_session=True)

        def end():
            os.killpg(other.pid, signal.SIGKILL)
            other.communicate()
        self.addCleanup(end)
        self.assertEqual(other.stdout.readline(), "held\n")
        return other

    def proposals(self, *store):
        seen = self.tell("inspect", *store, "k")
        return dict(re.findall("(?m)^(revoke|kill|force|end) +(.*)$", seen))

    def paste(self, command):
        script = 'dlock() { "$DLOCK" "$@"; }\n' + command
        subprocess.run(["sh", "-c", script], env={**parts.clean, "DLOCK": parts.DLOCK}, check=True,
                       cwd=self.dir, stdin=subprocess.DEVNULL, timeout=parts.BOUND)

    def only_itself_ends_it(self, store, why):
        self.assertEqual(self.proposals(*store), {"end": "not by --force: " + why})
        for which in ["--yes"], []:
            said = self.tell("release", *store, "--key", "k", "--force", *which, wanted=[64])
            self.assertIn(why, said.splitlines()[-1])

    def force_ends_it(self, store):
        proposed = self.proposals(*store)
        self.assertEqual(list(proposed), ["force"])
        self.paste(proposed["force"])
        self.tell("inspect", *store, "--check", "k")

    def test_flock(self):
        store = ["-b", self.file + "?recipe=flock"]
        self.another("flock", self.locks + "/k", "sh", "-c", "echo held; exec sleep 600")
        self.only_itself_ends_it(store, "another program locked the file, and the lock ends when "
                                 "that program unlocks it or ends")

    def test_flock_shared_with_another_program(self):
        store = ["-b", self.file + "?recipe=flock"]
        self.another("flock", "-s", self.locks + "/k", "sh", "-c", "echo held; exec sleep 600")
        run = self.run_dlock(*store, "-s", "--key", "k", "--", "sleep", "600")
        run.event("acquired")
        said = self.tell("release", *store, "--key", "k", "--force", "--yes").splitlines()
        self.assertEqual(len(said), 2)
        self.assertIn("k: asked to release", said[0])
        self.assertIn("k: not removed: another program locked the file", said[1])
        run.end(123)

    def test_flock_of_a_dlock_that_was_told(self):
        """Its job ends late. What is proposed then is not the same again, which answers 75."""
        store = ["-b", self.file + "?recipe=flock"]
        job = f"trap '' TERM; mkfifo {self.dir}/go; : <{self.dir}/go"
        run = self.run_dlock(*store, "-k", "600s", "--key", "k", "--", "sh", "-c", job)
        parts.within("its job runs", lambda: os.path.exists(self.dir + "/go"))
        proposed = self.proposals(*store)
        self.assertEqual(list(proposed), ["kill", "force"])
        self.paste(proposed["force"])
        proposed = self.proposals(*store)
        self.assertEqual(list(proposed), ["kill", "end"])
        self.assertIn("was asked to release (release --force)", proposed["end"])
        with open(self.dir + "/go", "w"):
            run.end(123)

    def by_hand(self, server, sql):
        """A session of the mariadb client that has executed this."""
        shutil.which("mariadb") or parts.missing("mariadb")
        host, port = server.host.split(":")
        session = self.another("sh", "-c", 'echo held; exec "$0" "$@"', "mariadb", "--no-defaults",
                               "-uroot", "-h" + host, "-P" + port, "--unbuffered", "-N", "-B",
                               server.url.split("/")[-1])
        session.stdin.write(sql + ";\n")
        session.stdin.flush()
        self.assertEqual(session.stdout.readline(), "1\n")

    def test_for_update(self):
        server = parts.fixture("mysql")
        store = ["-b", server.url + "?recipe=for-update&table=jobs&key_column=name"]
        self.by_hand(server, "CREATE TABLE jobs(name VARCHAR(9) PRIMARY KEY) ENGINE=InnoDB; "
                     "INSERT INTO jobs VALUES('k'); START TRANSACTION; "
                     "SELECT 1 FROM jobs WHERE name='k' FOR UPDATE")
        self.only_itself_ends_it(store, "a transaction of another program has the row, and the "
                                 "lock ends with that transaction")

    def test_get_lock(self):
        """Where no dlock has been yet: its tables are missing."""
        server = parts.fixture("mysql")
        self.by_hand(server, "SELECT GET_LOCK('k',0)")
        self.force_ends_it(["-b", server.url, "--recipe", "get-lock"])

    def test_etcdctl_lock(self):
        shutil.which("etcdctl") or parts.missing("etcdctl")
        server = parts.fixture("etcd")
        store = ["-b", server.url, "--recipe", "concurrency"]
        self.another("env", "ETCDCTL_API=3", "etcdctl", "--endpoints=http://" + server.host,
                     "lock", "k", "--", "sh", "-c", "echo held; exec sleep 600")
        said = self.tell("release", *store, "--key", "k", "--revoke", "--wait", "1s", wanted=[64])
        self.assertRegex(said, "no process would read a request for k: "
                               "no dlock is recorded as its holder; use "
                         "--force --token [0-9]+$")
        self.force_ends_it(store)


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
