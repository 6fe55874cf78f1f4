# SPDX-License-Identifier: Apache-2.0
"""For scripts: acquire --keep, run --handle, several keys, nested runs, release --revoke."""
import json, os, signal, subprocess, time, unittest
import stores
from stores import STORE
from harness import DLOCK, kill, read, within, write


class Keep(stores.Case):
    """acquire --keep."""

    def keep(self, *words, key="k", **more):
        return self.acquired("--keep", "--key", key, "--watch-pid", str(os.getpid()), *words,
                             bound=20, **more)

    def test_handle(self):
        """At once, through a pipe; release, renew, check."""
        mine = ["--key", "k", "--handle", self.keep()]
        self.is_held("k")
        for verb in "check", "renew", "release":
            self.dlock(verb, *mine)
        self.is_free("k")

    def test_script_is_killed(self):
        """By any signal: the key is free long before the ttl."""
        for number in signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP:
            with self.subTest(number):  # a script that leads its process group
                done = self.shell('"$DLOCK" acquire --keep --key k --ttl 1h >handle; '
                                  "kill -$1 $$; sleep 60", str(int(number)), wanted=-number,
                                  start_new_session=True)
                self.assertNotEqual("", read("handle"), done)
                self.key("--", "true", bound=20)

    def test_renewed(self):
        """The lease is, beyond its ttl, while the caller lives."""
        handle = self.keep("--ttl", f"{self.short}s")
        time.sleep(self.short + 1)
        self.dlock("check", "--key", "k", "--handle", handle)

    def test_max_hold(self):
        """It releases the lock."""
        self.keep("--max-hold", "100ms", "--ttl", "1h")
        self.key("--", "true", bound=20)

    def test_errors(self):
        """They are reported in the foreground, as is busy."""
        self.acquired("--key", "k")
        self.refused(75, "k is held by", "acquire", "--keep", "--key", "k", "-n")
        self.refused(64, "no process", "acquire", "--keep", "--key", "z", "--watch-pid", "4194303")
        with open("/dev/full", "w") as full:
            self.keep(key="z", stdout=full, wanted=125)
        self.is_free("z")


class Handle(stores.Case):
    def test_of_a_wait(self):
        """It is valid for a lock that had to wait."""
        first = self.acquired("--key", "k", "--key", "z")
        waiting = {"kz": self.start("acquire", "--key", "k", "--key", "z"),
                   "k": self.start("acquire", "--keep", "--key", "k", "--watch-pid",
                                   str(os.getpid()))}
        for run in waiting.values():
            run.says("waiting")
        self.dlock("release", "--key", "k", "--key", "z", "--handle", first)
        while waiting:  # in either order
            keys = within("one is granted", lambda: next(
                (keys for keys, run in waiting.items() if "\n" in run.out), None))
            run = waiting.pop(keys)
            run.end(0)
            mine = [word for key in keys for word in ("--key", key)]
            mine += ["--handle", run.out.strip()]
            self.dlock("renew" if keys == "k" else "check", *mine)
            self.dlock("release", *mine)
        self.is_free("k")
        self.is_free("z")

    def test_run(self):
        """run --handle: under the lease of acquire, which it renews and does not release."""
        handle = self.acquired("--key", "k", "--ttl", "1h")
        done = self.key("--handle", handle, "--", "sh", "-c",
                        'echo "$DLOCK_KEY $DLOCK_HANDLE"; exit 3', wanted=3)
        self.assertEqual(f"k {handle}\n", done.out)
        self.is_held("k")
        self.key("--handle", "-", "--", "true", input=handle + "\n")
        self.dlock("release", "--key", "k", "--handle", handle)
        self.refused(75, "not held by this handle", "run", "--handle", handle, "--key", "k", "--",
                     "touch", "ran")
        self.not_run()
        self.key("-n", "--", "true", env={"DLOCK_HANDLE": handle})  # an ordinary contender

    @unittest.skipIf(STORE == "zookeeper", "one process at a time can use a handle")
    def test_released_meanwhile(self):
        """run --handle: a lock that was is reported."""
        handle = self.acquired("--key", "k", "--ttl", "1h")
        done = self.key("--handle", handle, "--", DLOCK, "release", "--key", "k", "--handle",
                        handle)
        self.assertIn("not held any more", done.err)


class SeveralKeys(stores.Case):
    def test_all_or_none(self):
        """Whatever the order; the variables are those of the first."""
        done = self.dlock("run", "--key", "b", "--key", "a", "--key", "c", "--", "sh", "-c", """
            for k in a b c; do "$DLOCK" inspect --check $k; echo $?; done
            echo $DLOCK_KEY; echo "$DLOCK_GRANTS" """)
        self.assertEqual(["75", "75", "75", "b"], done.lines[:4])
        self.assertEqual(["b", "a", "c"],
                         [grant["key"] for grant in json.loads(done.lines[4])])
        for key in "abc":
            self.is_free(key)
        handle = self.acquired("--key", "c")
        self.refused(75, "c", "run", "--key", "a", "--key", "c", "-n", "--", "true")
        self.is_free("a")
        self.dlock("release", "--key", "c", "--handle", handle)

    def test_opposite_orders(self):
        """They do not wait for each other."""
        runs = [self.start("run", "--key", one, "--key", other, "--", "true")
                for one, other in 10 * [("a", "b")] + 10 * [("b", "a")]]
        for run in runs:
            run.end(0)
        self.is_free("a")

    @unittest.skipIf(STORE != "file", "a lease ends by its ttl")
    def test_both_killed(self):
        """kill -9 of dlock and its guard frees all of them."""
        run = self.start("run", "--key", "a", "--key", "b", "--", "sleep", "100")
        run.event("acquired")
        kill(run.pid, run.guard)
        self.dlock("run", "--key", "b", "--key", "a", "--", "true", bound=20)

    def test_acquire(self):
        """One handle for all, which are released together or one after the other."""
        for steps in (["a", "b"],), (["a"], ["b"]):
            mine = ["--handle", self.acquired("--key", "a", "--key", "b")]
            left = ["a", "b"]
            for step in steps:
                self.dlock("check", *mine, *(word for key in left for word in ("--key", key)))
                self.dlock("release", *mine, *(word for key in step for word in ("--key", key)))
                left = [key for key in left if key not in step]
                for key in "a", "b":
                    (self.is_held if key in left else self.is_free)(key)
                for key in left:
                    self.dlock("renew", "--key", key, *mine)


class Nested(stores.Case):
    def test_same_key(self):
        """It is re-entrant, with the same token, and stays held."""
        done = self.key("--", "sh", "-c", """echo $DLOCK_TOKEN
            "$DLOCK" run --key k -- sh -c 'echo $DLOCK_TOKEN'
            "$DLOCK" inspect --check k
            echo $?""", bound=20)
        self.assertEqual(done.lines[0], done.lines[1])
        self.assertEqual("75", done.lines[2])
        done = self.key("--", DLOCK, "run", "--key", "other", "--", DLOCK, "run", "-n", "--key",
                        "k", "--", "echo", "deep", bound=20)
        self.assertEqual("deep\n", done.out)

    def test_other_modes(self):
        """Shared to exclusive, or another limit, would wait for itself."""
        if self.key("--explain", "-s", "--", "true", wanted=None).status:
            self.skipTest("this recipe has no --shared")

        def nested(outer, inner, wanted=0):
            return self.key(*outer, "--", DLOCK, "run", "--key", "k", *inner, "--", "true",
                            wanted=wanted, bound=20)
        self.assertIn("shared", nested(["-s"], [], 64).err)
        nested([], ["-s"])
        nested(["--limit", "2"], ["--limit", "2"])
        nested(["--limit", "2"], ["--limit", "3"], 64)
        nested([], ["--no-reentrant", "-n"], 75)


class Others(stores.Case):
    def test_revoke(self):
        """The job is asked to end, and the lock is released."""
        status = self.dlock("release", "--key", "free", "--revoke", wanted=None).status
        if status == 64:
            self.skipTest("this recipe has no --revoke")
        self.assertEqual(75, status)
        for verb, words in ("run", ["--", "sleep", "100"]), ("acquire", ["--hold"]):
            with self.subTest(verb):
                run = self.start(verb, "-q", "--key", "k", "--ttl", f"{self.short}s", *words,
                                 stdin=subprocess.PIPE)
                self.until_held("k")
                self.dlock("release", "--key", "k", "--revoke")
                run.end(122)
                run.process.stdin.close()
                self.assertRegex(run.err, "k: .*asked to stop")
                self.is_free("k")

    def test_publish_command(self):
        """Shown only when asked for."""
        for options, word in (["--publish-command"], "visible"), ([], "hidden"):
            done = self.key(*options, "--", "sh", "-c", '"$DLOCK" inspect -J k', word)
            command = done.json["holders"][0]["command"]
            if options:
                self.assertIn(word, command)
            else:
                self.assertIsNone(command)

    @unittest.skipIf(STORE != "redis", "once is enough")
    def test_bench(self):
        """A note per reason, a remark on file: beside a server, a password for each backend."""
        done = self.dlock("bench", "-b", self.url, "-b", self.file, "--recipe", "fair", "--recipe",
                          "set", "--recipe", "lease", "-d", "200ms", "-c", "2", "--scenario",
                          "handoff")
        self.assertLine("note  redis fair, redis set: the server is on this host; over a network "
                        "each command takes a round trip more", done)
        self.assertLine("file lease: locks of this machine alone, which are not written to disk "
                        "at each grant.*", done)
        # A user with a password of its own beside the one that needs none.
        self.server.tell("ACL", "SETUSER", "bench", "on", ">s3cret", "allkeys", "allchannels",
                         "allcommands")
        write("right", "s3cret\n")
        write("wrong", "other\n")
        as_bench = self.url.replace("redis://", "redis://bench@") + "&password_file="
        short = ["-d", "200ms", "-c", "2"]
        self.dlock("bench", "-b", as_bench + "right", "-b", self.url, *short)
        self.dlock("bench", "-b", self.url, "-b", as_bench + "wrong", *short, wanted=77)
        self.dlock("inspect", "-b", f"{as_bench}{self.dir}/wrong", wanted=77)
        self.dlock("inspect", "-b", f"{as_bench}{self.dir}/right", "k")


stores.main()
