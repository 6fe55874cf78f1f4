# SPDX-License-Identifier: Apache-2.0
"""acquire, renew, release and check on `file`."""
import fcntl, json, os, re, signal, socket, socket
import harness
from harness import FAKE, kill, read, within, write
from pseudoterminal import Terminal

HOST = socket.gethostname()
NOBODY = "h1:file.lease:00000000000000000000000000000000"
HANDLE = r"h1:file\.lease:[0-9a-f]{32}"


class Case(harness.Case):
    def check(self, status, *words, **more):
        """`check` says nothing, but its status."""
        done = self.dlock("check", *words, wanted=status, **more)
        self.assertEqual("", done.out + done.err)


class Sequence(Case):
    def test_acquire_check_renew_release(self):
        done = self.dlock("acquire", "--key", "k")
        self.assertRegex(done.out, rf"\A{HANDLE}\n\Z")
        self.assertEqual("", done.err)
        self.is_held("k")
        mine = ["--key", "k", "--handle", done.out.strip()]
        self.check(0, *mine)
        for verb in ("renew", *mine, "--ttl", "1m"), ("release", *mine):
            done = self.dlock(*verb)
            self.assertEqual("", done.out + done.err)
        self.is_free("k")
        self.check(1, *mine)

    def test_busy(self):
        """75 or the status of -E, one line that names the holder, or none with -q."""
        self.acquired("--key", "k", "--reason", "INC-812 ana")
        self.assertIn("INC-812 ana", self.refused(75, HOST, "acquire", "--key", "k", "-n").err)
        for status, options, env in ((75, ("-w", "0"), {}), (3, ("-n", "-E", "3"), {}),
                                     (4, ("-n",), {"DLOCK_CONFLICT_EXIT_CODE": "4"}),
                                     (75, (), {"DLOCK_NONBLOCK": "1"})):
            with self.subTest(options=options, env=env):
                self.refused(status, "k is held by", "acquire", "--key", "k", *options, env=env)
        for options, env in (("-nq", {}), ("-n", {"DLOCK_QUIET": "1"})):
            done = self.dlock("acquire", "--key", "k", options, env=env, wanted=75)
            self.assertEqual("", done.out + done.err)

    def test_shared_beside_limit(self):
        """On one key: the line says why it is busy."""
        self.acquired("--key", "s", "-s")
        self.acquired("--key", "s", "-n", "--limit", "2")
        self.acquired("--key", "s", "-s")
        self.refused(75, "(a --shared lock, which counts as one of --limit 2)",
                     "acquire", "--key", "s", "-n", "--limit", "2")
        done = self.refused(75, "s is held", "acquire", "--key", "s", "-n")
        self.assertNotIn("--limit", done.err)

    def test_renew(self):
        """It sets the rest of the lease, longer or shorter."""
        mine = ["--key", "k", "--handle", self.acquired("--key", "k", "--ttl", "30s")]
        self.dlock("renew", *mine, "--ttl", "1h")
        self.assertGreater(self.holder()["lease_remaining_ms"], 3500000)
        self.dlock("renew", *mine, "--ttl", "5s")
        self.assertIn(self.holder()["lease_remaining_ms"], range(1, 5001))

    def test_handle_of_another_holder(self):
        """It has no effect."""
        handle = self.acquired("--key", "k")
        other = self.acquired("--key", "other")
        for verb in "release", "renew":
            self.refused(75, "k is not held by this handle", verb, "--key", "k", "--handle", other)
        self.dlock("release", "--key", "k", "--handle", other, "--if-held")
        self.check(1, "--key", "k", "--handle", other)
        self.check(0, "--key", "k", "--handle", handle)

    def test_release_twice(self):
        """Not held, a success with --if-held, silent with -q."""
        mine = ["--handle", self.acquired("--key", "k")]
        self.dlock("release", "--key", "k", *mine)
        self.refused(75, "k is not held by this handle", "release", "--key", "k", *mine)
        for status, key, option in ((75, "k", "-q"), (0, "k", "--if-held"),
                                    (0, "never", "--if-held")):
            done = self.dlock("release", option, "--key", key, *mine, wanted=status)
            self.assertEqual("", done.out + done.err)

    def test_handle_from_elsewhere(self):
        """From standard input, a file, a variable; the option has precedence."""
        handle = self.acquired("--key", "k")
        self.check(0, "--key", "k", "--handle", "-", input=handle + "\n")
        write("handle", handle + "\n")
        self.check(0, "--key", "k", "--handle", "@handle")
        write("handle", handle)  # without a newline
        self.dlock("renew", "--key", "k", "--handle", f"@{self.dir}/handle")
        self.check(0, "--key", "k", env={"DLOCK_HANDLE": handle})
        self.dlock("renew", "--key", "k", env={"DLOCK_HANDLE": handle})
        self.dlock("release", "--key", "k", env={"DLOCK_HANDLE": NOBODY}, wanted=75)
        # One line is enough, where the pipe does not end.
        reader, writer = os.pipe()
        os.write(writer, handle.encode() + b"\n")
        self.dlock("release", "--key", "k", "--handle", "-", env={"DLOCK_HANDLE": NOBODY},
                   stdin=reader)
        os.close(reader)
        os.close(writer)
        self.is_free("k")

    def test_check(self):
        """It accepts tokens and sequencers."""
        key = "a key/with:%signs"
        grant = self.dlock("acquire", "--key", key, "--output", "json").json
        token, sequencer = grant["token"], grant["sequencer"]
        older = sequencer.rpartition(":")[0] + ":1"
        for status, words in ((0, (sequencer,)), (0, ("--key", key, "--token", str(token))),
                              (1, ("--key", key, "--token", str(token - 1))),
                              (1, ("--key", "never", "--token", str(token))), (1, (older,))):
            self.check(status, *words)
        self.assertIn("stale", self.dlock("check", "-v", older, wanted=1).err)
        self.dlock("release", "--key", key, "--handle", grant["handle"])
        self.check(1, sequencer)

    def test_json(self):
        """--output json has these names and no others."""
        done = self.dlock("acquire", "--key", "k", "--ttl", "90s", "--output", "json")
        self.assertEqual(1, len(done.lines))
        self.assertEqual("key keys handle token sequencer scheme recipe mode slot ttl_ms".split(),
                         list(done.json))
        wanted = {"key": "k", "keys": ["k"], "scheme": "file", "recipe": "lease",
                  "mode": "exclusive", "slot": None, "ttl_ms": 90000}
        self.assertEqual(wanted, {name: done.json[name] for name in wanted})

    def test_env(self):
        """--output env is safe for eval, whatever the key."""
        nasty = "it's $(touch gone) `x` \"q\" \\ é"
        text = self.dlock("acquire", "--key", nasty, "--ttl", "90s",
                          env={"DLOCK_OUTPUT": "env"}).out
        for line in text.splitlines():
            self.assertRegex(line, r"\Aexport DLOCK_[A-Z_]+='")
        done = self.program("sh", "-c", 'eval "$0" && exec env -0', text)
        env = dict(line.split("=", 1) for line in done.out.split("\0")[:-1])
        self.assertFalse(os.path.exists("gone"))
        self.assertEqual((nasty, "90000"), (env["DLOCK_KEY"], env["DLOCK_TTL_MS"]))
        mine = {"DLOCK_HANDLE": env["DLOCK_HANDLE"]}
        self.check(0, env["DLOCK_SEQUENCER"])
        self.check(0, "--key", nasty, "--token", env["DLOCK_TOKEN"])
        self.dlock("renew", "--key", nasty, env=mine)
        self.dlock("release", "--key", nasty, env=mine)
        self.check(1, env["DLOCK_SEQUENCER"])

    def test_no_reader(self):
        """A handle that nobody reads leaves no lock behind."""
        reader, writer = os.pipe()
        os.close(reader)
        done = self.dlock("acquire", "--key", "k", stdout=writer, wanted=125)
        os.close(writer)
        self.assertIn("Broken pipe", done.err)
        self.is_free("k")

    def test_trace(self):
        """A line before and after each request, and no secret."""
        handle = self.acquired("--key", "k", "--trace", "trace")
        for verb, status in ("renew", 0), ("release", 0), ("release", 75):
            self.dlock(verb, "--key", "k", "--handle", handle, "--trace", "trace", wanted=status)
        steps = [(line["ev"], line["f"]) for line in map(json.loads, read("trace").splitlines())]
        self.assertEqual([("invoke", "renew"), ("ok", "renew"), ("invoke", "release"),
                          ("ok", "release"), ("invoke", "release"), ("fail", "release")],
                         steps[-6:])
        self.assertNotIn(handle.rpartition(":")[2], read("trace"))
        self.refused(73, "--trace ", "release", "--key", "k", "--handle", handle,
                     "--trace", "no/such")

    def test_unreachable(self):
        """An unreachable store is 69, one that refuses is 77."""
        handle = "h1:fake.lease:00000000000000000000000000000000"
        for fault, status, words in (
                ("unavailable", 69, "check --token 3"),
                ("unavailable", 69, f"release --handle {handle}"),
                ("unavailable", 69, f"release --handle {handle} --if-held"),
                ("unavailable", 69, "release --force --yes"),
                ("unavailable", 69, f"renew --handle {handle}"),
                ("unavailable", 69, "acquire -n"), ("denied", 77, "check --token 3"),
                ("denied", 77, "acquire"), ("cannot_create", 73, "acquire")):
            with self.subTest(fault=fault, words=words):
                self.refused(status, "", *words.split(), "--key", "k", dlock=FAKE,
                             env={"DLOCK_BACKEND": f"fake:?fail_open={fault}"})


class Force(Case):
    """release --force."""

    def force(self, *words, **more):
        return self.dlock("release", "--key", "k", "--force", *words, **more)

    def test_asks(self):
        """It shows the holder and asks for confirmation."""
        self.acquired("--key", "k", "--reason", "half way")
        done = self.force(wanted=64)
        self.assertRegex(done.out, "(?m)^holder   " + re.escape(HOST))
        self.assertIn("half way", done.out)
        self.assertRegex(done.err, r"\Adlock: .*--token [0-9]+ .*--yes")
        self.is_held("k")
        # a view for people is no JSON
        done = self.force("--json", wanted=64)
        self.assertEqual("", done.out)
        self.assertRegex(done.err, r"\Adlock: .*--force with JSON output needs --token N or "
                         r"--yes\n\Z")
        self.is_held("k")
        self.assertIn("free is not held",
                      self.dlock("release", "--key", "free", "--force", wanted=64).err)

    def test_terminal(self):
        """It removes exactly the holders that were shown and confirmed."""
        self.acquired("--key", "k", "-s")
        self.acquired("--key", "k", "-s")
        token = self.inspected("k")["holders"][1]["token"]
        ask = ["release", "--key", "k", "--force"]
        run = Terminal(self, *ask).shows(f"remove the holder {HOST}").type("n\n")
        run.shows(f"with token {token}? [y/N]").type("y\n").shows("removed; its job on").end(0)
        left, = [holder["token"] for holder in self.inspected("k")["holders"]]
        self.assertNotEqual(token, left)
        self.is_held("k")
        Terminal(self, *ask).shows("[y/N]").type("\n").end(75)
        self.is_held("k")
        # with a token or --yes it never asks
        Terminal(self, *ask, "--yes").end(0)
        self.is_free("k")

    def test_token(self):
        """--token compares, --yes does not; old grants stay stale."""
        handle = self.acquired("--key", "k")
        token = self.inspected("k")["token"]
        self.refused(75, f"k is not held with token {token + 1}",
                     "release", "--key", "k", "--force", "--token", str(token + 1))
        self.force("--token", str(token + 1), "--if-held")
        self.is_held("k")
        done = self.force("--token", str(token))
        self.assertRegex(done.err, rf"\Adlock: k: removed; its job on {re.escape(HOST)} may run up "
                         r"to [0-9]+s more; the next holder may start now\n\Z")
        self.is_free("k")
        self.check(1, "--key", "k", "--handle", handle)
        self.check(1, "--key", "k", "--token", str(token))
        self.refused(75, "not held", "release", "--key", "k", "--handle", handle)
        self.acquired("--key", "k", "-s")
        self.acquired("--key", "k", "-s")
        self.force("--yes")
        self.is_free("k")
        self.refused(75, "k is not held", "release", "--key", "k", "--force", "--yes")


class Revoke(Case):
    """release --revoke --wait."""

    def revoke(self, wait):
        return ["release", "--key", "k", "--revoke", "--wait", wait]

    def test_until_gone(self):
        """Until the holder is gone, or 75."""
        held = self.hold_by_stubborn_job("k", "-k", "1m")
        asked = rf"dlock: k: asked {HOST}:{{}} \(.*\) to stop; it hears of it at once\n"
        done = self.dlock(*self.revoke("200ms"), wanted=75)
        self.assertRegex(done.err, rf"\A{asked.format(held.pid)}dlock: .* was asked to stop, and "
                         r"still holds k after 200ms\n\Z")
        held.send(signal.SIGKILL).end(-9)
        self.dlock("release", "--key", "k", "--force", "--yes", "-q", env={"DLOCK_WAIT": "x"},
                   wanted=None)
        self.until_free("k")
        held = self.hold_by_stubborn_job("k", "-k", "300ms")
        done = self.dlock(*self.revoke("20s"))
        self.assertRegex(done.out + done.err, rf"\A{asked.format(held.pid)}"
                         r"(dlock: .*; waiting up to 20s\n)?\Z")
        self.is_free("k")
        held.end(122)

    def test_long_wait(self):
        """It says who still holds the lock, once, as run does; nothing with -q."""
        held = self.hold_by_stubborn_job("k", "-k", "1h")
        waits = self.start(*self.revoke("1h"))
        waits.says("; waiting up to 1h\n")
        self.assertRegex(waits.err, rf"\Adlock: k: asked .*\ndlock: {HOST}:{held.pid} \(.*\) was "
                         r"asked to stop, and still holds k after [0-9.]+m?s; waiting up to 1h\n\Z")
        quiet = self.dlock(*self.revoke("2s"), "-q", wanted=75)
        self.assertEqual("", quiet.err)
        held.send(signal.SIGKILL).end(-9)
        waits.end(0)
        self.assertEqual(2, waits.err.count("\n"))

    def test_record_lost(self):
        """A record that was lost is no end of a job."""
        held = self.hold_by_stubborn_job("k", "-k", "1m")
        waits = self.start(*self.revoke("8s"))
        within("it was asked", lambda: "was asked to stop" in self.dlock("inspect", "k").out)
        self.program("sh", "-c", "rm -r locks/k*")
        waits.end(69)
        self.assertRegex(waits.err, "k: the store has lost the grant with token [0-9]*: "
                         "whether its job has ended is unknown")
        held.send(signal.SIGKILL).end(-9)


class Hold(Case):
    """acquire --hold."""

    def test_until_the_input_ends(self):
        held = self.hold_by_input("k", "--reason", "lunch")
        self.assertRegex(held.handle, rf"\A{HANDLE}\Z")
        self.is_held("k")
        self.check(0, "--key", "k", "--handle", held.handle)
        held.process.stdin.close()
        held.end(0)
        self.is_free("k")

    def test_signals(self):
        """It dies of them and frees the lock."""
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            held = self.hold_by_input()
            self.is_held("k")
            held.send(number).end(-number)
            self.is_free("k")

    def test_lost(self):
        """123."""
        held = self.hold_by_input()
        self.dlock("release", "--key", "k", "--force", "--yes")
        held.end(123)
        self.is_free("k")

    def test_run_under_it(self):
        """run --handle refuses a lock that ends with another process."""
        held = self.hold_by_input()
        self.refused(64, "ends with it", "run", "--handle", held.handle, "--key", "k", "--",
                     "touch", "ran")
        self.not_run()


class Keeper(Case):
    """acquire --keep where the lock ends with a descriptor: only its keeper can act for it, over a
    socket in its network namespace."""

    def setUp(self):
        super().setUp()
        self.env["DLOCK_BACKEND"] += "?recipe=flock"
        self.handle = self.acquired("--keep", "--key", "k", "--watch-pid", str(os.getpid()))
        self.mine = ["--key", "k", "--handle", self.handle]
        self.lock = open("locks/k")
        self.addCleanup(self.lock.close)
        self.assertFalse(self.is_unlocked(), "it is not held")
        self.keeper = int(self.handle.rpartition(".")[2])

    def is_unlocked(self):
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        return True

    def test_verbs(self):
        """check, renew, release; not held when it is dead."""
        for verb in "check", "renew", "release":
            self.dlock(verb, *self.mine)
        within("it is released", self.is_unlocked)
        self.check(1, *self.mine)
        for verb in "renew", "release":
            self.refused(75, "not held by this handle", verb, *self.mine)

    def test_another_namespace(self):
        """A keeper there is unknown, never not held; a dead one is known to be dead."""
        apart = ("unshare", "-n")
        if self.program(*apart, "true", wanted=None).status:
            self.skipTest("no other network namespace can be made here")
        for verb in "check", "renew", "release":
            done = self.dlock(verb, *self.mine, before=apart, wanted=69)
            self.assertRegex(done.out + done.err, rf"\Adlock: the keeper of this lock, process "
                             rf"{self.keeper}, cannot be reached .* may be alive\n\Z")
        self.dlock("release", "--if-held", *self.mine, before=apart, wanted=69)
        self.check(0, *self.mine)
        kill(self.keeper)
        within("its end", self.is_unlocked)
        within("it is known to be dead", lambda: self.dlock(
            "check", *self.mine, before=apart, wanted=(1, 69)).status == 1)
        self.dlock("check", *self.mine, wanted=1)
        # Another pid namespace, or another boot or host: its state cannot be known here.
        self.dlock("check", *self.mine, before=(*apart, "-p", "-f"), wanted=69)
        elsewhere = re.sub(r"(keeper\.[^.]*\.)[^.]*", r"\g<1>0123456789abcdef", self.handle)
        nowhere = re.sub(r"\.[0-9a-f][0-9a-f].*", ".00", self.handle)
        for handle in elsewhere, nowhere:
            self.assertNotEqual(handle, self.handle)
            self.dlock("check", "--key", "k", "--handle", handle, wanted=69)

    def test_stopped(self):
        """It is unknown, in a bounded time."""
        kill(self.keeper, sig=signal.SIGSTOP)
        self.refused(69, "the keeper did not answer", "release", *self.mine, bound=20)
        kill(self.keeper, sig=signal.SIGCONT)

    def test_run_under_it(self):
        """run --handle needs a lease that outlives the process that took it."""
        self.refused(64, "no other can run a command under it", "run", *self.mine, "--", "touch",
                     "ran")
        self.not_run()
        self.dlock("release", *self.mine)


harness.main()
