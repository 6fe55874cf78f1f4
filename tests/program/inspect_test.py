# SPDX-License-Identifier: Apache-2.0
"""What inspect prints, for people and for programs."""
import os, pwd, re, signal, socket
import harness
from harness import FAKE, kill, read, write
from pseudoterminal import Terminal

HOST = re.escape(socket.gethostname())
USER = pwd.getpwuid(os.getuid()).pw_name
TIME = "20[0-9-]+T[0-9:.]+Z"


class Case(harness.Case):
    def view(self, *words, wanted=0, **more):
        return self.dlock("inspect", *words, wanted=wanted, **more)

    def assertJson(self, wanted, value, *words):
        """`value` of the object that inspect prints."""
        self.assertEqual(wanted, value(self.inspected(*words)))

    def assertView(self, lines, none=(), *words, wanted=0, **more):
        done = self.view(*words, wanted=wanted, **more)
        for line in lines:
            self.assertLine(line, done)
        for line in none:
            self.assertNoLine(line, done)
        return done


class Table(Case):
    def test_nothing_yet(self):
        """An empty table, no keys."""
        done = self.view()
        self.assertRegex(done.lines[0], r"\AKEY +STATE +MODE +HOLDER +ASKED +AGE +LEASE +TOKEN "
                         r"+WAIT +REASON\Z")
        self.assertEqual("0 keys, 0 held, 0 waiting", done.lines[1])
        self.listed("")
        self.assertJson(([], True), lambda j: (j["keys"], j["complete"]))

    def test_never_used(self):
        """Free, without a token."""
        self.assertView([r"state +free \(the backend has no record of this key\)", "token +-"], [], "never")
        self.assertEqual("", self.view("--check", "never").out)
        self.assertJson(("free", None, [], None, True), lambda j: (
            j["state"], j["token"], j["holders"], j["mode"], j["complete"]), "never")
        self.assertRegex(self.view("never", "--no-heading").out,
                         r"\Anever +free +- +- +- +- +- +- +0 +-\n\Z")
        self.assertFalse(os.path.exists("locks/never"))

    def test_held_and_free(self):
        self.acquired("--key", "held", "--ttl", "1h", "--reason", "INC-812 ana")
        self.dlock("release", "--key", "free", "--handle", self.acquired("--key", "free"))
        self.assertView(["free +free +- +- +- +- +- +[0-9]+ +0 +-",
                         rf"held +held +exclusive +{HOST}:[0-9]+ \({USER}\) +[0-9:]{{8}} "
                         r"+\? +[0-9.msh]+ +[0-9]+ +0 +INC-812 ana",
                         "2 keys, 1 held, 0 waiting"])
        self.listed("held\n", "--held", "-o", "key")
        self.listed("", "--stale", "-o", "key")

    def test_columns(self):
        """Chosen, added, in any case."""
        self.acquired("--key", "k", "--limit", "3")
        self.acquired("--key", "k", "--limit", "3")
        self.assertRegex(self.view("-o", "KEY,mode,Holders,SLOT", "--no-heading").out,
                         r"\Ak +permit +2 +0\n\Z")
        self.assertRegex(self.view("-o", "+SLOT").lines[0], "REASON +SLOT$")
        self.assertEqual("STATE\nheld\n1 key, 1 held, 0 waiting\n",
                         self.view("k", "--columns", "STATE").out)
        env = {"DLOCK_COLUMNS": "key"}
        self.assertEqual("k\n", self.view("--no-heading", env=env).out)
        # A default for tables does not replace the view of one key.
        self.assertView(["state +held, permit, 2 of 3 permits"], [], "k", env=env)

    def test_pattern(self):
        """It lists the keys that match; a key of that very name comes first."""
        for key in "svc-a", "svc-b", "other":
            self.acquired("--key", key)
        self.listed("svc-a\nsvc-b\n", "svc-*", "-o", "KEY")
        self.assertJson(["svc-b"], lambda j: [k["key"] for k in j["keys"]], "svc-[b]")
        self.assertView(["0 keys, 0 held, 0 waiting"], [], "none-*")
        self.acquired("--key", "svc-*")
        self.assertView([r"key +svc-\*"], [], "svc-*")
        self.view("--check", "oth*", wanted=75)
        self.view("--check", "none-*")
        self.acquired("--key", "o[t]her")
        self.dlock("release", "--key", "o[t]her", "--force", "--yes")
        self.view("--check", "o[t]her")  # this key, not those that match

    def test_sort(self):
        """By key, the longest held first, the most waiters first."""
        for words in ("b",), ("c",), ("a", "--ttl", "1m"):
            self.acquired("--key", *words)
        self.dlock("release", "--key", "z", "--handle", self.acquired("--key", "z"))
        self.start("acquire", "--key", "a")
        self.until_waiting(1, "a")
        for order, wanted in ("key", "abcz"), ("age", "bcaz"), ("waiters", "abcz"):
            self.listed("".join(key + "\n" for key in wanted), "-o", "KEY", "--sort", order)

    def test_csv(self):
        """Quoted, and numbers are plain."""
        self.acquired("--key", 'a,"b"', "--ttl", "1h", "--reason", "x,y")
        lines = self.view("--csv", "-o", "KEY,AGE,LEASE,ASKED,REASON").lines
        self.assertEqual("KEY,AGE_MS,LEASE_MS,ASKED,REASON", lines[0])
        self.assertRegex(lines[1], rf'\A"a,""b""",\?,[0-9]{{7}},{TIME},"x,y"\Z')
        self.listed("never,free,,,,,,,0,\n", "--csv", "never")
        self.listed(",never\n", "--csv", "never", "-o", "HOLDER,KEY")

    def test_json(self):
        """Names are stable."""
        self.acquired("--key", "k", "--reason", "r")
        seen = self.inspected("k")
        for wanted, names in (
                ("backend complete holders key last_run last_start mode notes state token waiters",
                 seen), ("family recipe scheme where", seen["backend"]),
                ("age_ms asked_at attached command host id kept_by lease_remaining_ms limit mode pid "
                 "program_ended reason revoked slot token user vanished", seen["holders"][0]),
                ("backend complete keys", self.inspected())):
            self.assertEqual(wanted, " ".join(sorted(names)))
        self.assertJson(["k"], lambda j: [k["key"] for k in j["keys"]])
        self.assertEqual(1, len(self.view("-J").lines))

    def test_control_sequences(self):
        """Text of other programs reaches the terminal without them."""
        self.program(harness.DLOCK, "acquire", "--key", "k", "--reason",
                     b"\x1b]0;owned\a\x1b[2J \xe2\x80\xae\xc2\x9b31m \xff")
        for form in [], ["-J"], ["--csv"]:
            for words in ["k", *form], form:
                out = self.view(*words).out
                if words and words[0] == "k":
                    self.assertIn(r"\x1b]0;owned", out)
                for harmful in "\x1b\a\x9b\udcff\u202e":
                    self.assertNotIn(harmful, out)
        self.assertNotIn("\x1b", self.tell("acquire", "--key", "k", "-n", wanted=(75,)))


class View(Case):
    """Of one key."""

    def test_holders(self):
        self.acquired("--key", "a b", "-s", "--reason", "one")
        self.acquired("--key", "a b", "-s", "--reason", "two")
        self.assertView(["key +a b", "state +held, shared",
                         rf"holder +{HOST}:[0-9]+ \({USER}\), token [0-9]+, id [0-9a-f]+",
                         f" +asked {TIME}, .* ago",
                         " +lease ends in [0-9.ms]+ without a renewal", " +reason one",
                         " +reason two", f"where +.*{self.dir}/locks.*, recipe lease"], [], "a b")

    def test_proposes(self):
        """To ask the holder first, then its process, then force."""
        held = self.hold_by_job()
        lines = self.view("k").lines
        for line, wanted in zip(lines[-3:], (
                r"revoke +dlock release -b .* --key 'k' --revoke --wait 1m",
                f"kill     kill {held.pid}", "force +dlock release .*")):
            self.assertRegex(line, rf"\A{wanted}\Z")
        self.assertFalse(self.holder()["revoked"])
        held.send(signal.SIGTERM).end(-15)
        self.hold_by_stubborn_job("k", "-k", "1m")
        self.dlock("release", "--key", "k", "--revoke")
        self.assertView([r" +was asked to stop \(release --revoke\)"], ["revoke "], "k")
        self.assertTrue(self.holder()["revoked"])

    def test_proposal_is_a_command(self):
        """It names the store as it was given, quoted, and no password."""
        self.acquired("--key", "it's")
        os.mkdir("a b")
        write("a b/c.toml", '[profile."p q"]\nop-timeout = "3s"\n')
        view = self.view("it's", "--config", "a b/c.toml", "--profile", "p q", "--recipe", "lease")
        self.assertLine(re.escape(f"force    dlock release -b '{self.file}' --config 'a b/c.toml' "
                                  r"--profile 'p q' --recipe 'lease' --key 'it'\''s' --force "
                                  "--token ") + "[0-9]+", view)
        del self.env["DLOCK_BACKEND"]
        self.forced(view)
        # Characters that are not safe to print are for the shell alone.
        odd = "x\u202ey"
        self.acquired("-b", self.file, "--key", odd)
        view = self.view("-b", self.file, odd)
        self.assertNotIn(odd, re.search("(?m)^force .*$", view.out)[0])
        self.forced(view)
        for key in "it's", odd:
            self.view("--check", "-b", self.file, key)

    def forced(self, view):
        """Carries out what the view proposes, in a shell that knows $'...'."""
        self.shell("\"$DLOCK\" " + re.search("(?m)^force *dlock (.*)$", view.out)[1])

    def test_nobody_listens(self):
        """Neither revoke nor kill is proposed, and --revoke is 64."""
        self.acquired("--key", "k")
        self.assertView(["force .*"], ["revoke ", "kill "], "k")
        self.refused(64, "no process would read a request for k: ",
                     "release", "--key", "k", "--revoke")
        self.refused(64, "use its --handle, or --force --token ", "release", "--key", "k",
                     "--revoke", "--wait", "1s")
        # One of them does: both are asked.
        self.acquired("--key", "s", "-s")
        self.acquired("--keep", "--watch-pid", str(os.getpid()), "--key", "s", "-s")
        self.assertView(["revoke .*"], [], "s")
        self.dlock("release", "--key", "s", "--revoke")

    def test_keeper(self):
        """acquire --keep: it is named, by its own process id and title."""
        self.acquired("--keep", "--watch-pid", str(os.getpid()), "--key", "kept")
        view = self.assertView(["revoke .*"], [], "kept")
        pid = int(re.search(r"(?m)^ *kept by process ([0-9]*) \(acquire --keep\)$", view.out)[1])
        self.assertEqual("lock-keeper: kept",
                         read(f"/proc/{pid}/cmdline").replace("\0", " ").rstrip(" ."))
        self.assertNotIn("has ended", view.out)
        self.assertLine(f"kill     kill {pid}", view)
        holder = self.holder("kept")
        self.assertEqual((pid, "keeper"), (holder["pid"], holder["kept_by"]))
        kill(pid, sig=signal.SIGTERM)
        self.until_free("kept")

    def test_min_hold(self):
        """What remains of it is kept, not stale, and not called a dead process."""
        self.key("--min-hold", "1h", "--", "true")
        self.assertView([rf" +kept until {TIME}, in [0-9.]+[ms][0-9.ms]*, "
                         r"job ended \(--min-hold\)"], ["revoke ", "kill ", ".*has ended"], "k")
        self.refused(64, "its job has ended (--min-hold); use --force", "release", "--key", "k",
                     "--revoke")
        self.assertEqual("min-hold", self.holder()["kept_by"])
        self.dlock("run", "--min-hold", "50ms", "--key", "short", "--", "true")
        self.until_free("short")
        self.assertView(["state    free"], [], "short")
        self.listed("", "--stale", "-o", "KEY")

    def test_another_namespace(self):
        """A process there is not to be killed, nor called dead."""
        apart = ("unshare", "-rpf", "--kill-child", "--mount-proc")
        if self.program(*apart, "true", wanted=None).status:
            self.skipTest("no PID namespaces here")
        self.start_key("--", "sleep", "60", before=apart).event("acquired")
        self.assertView([f"holder +{HOST}:1 .*", "revoke .*"], ["kill ", ".*has ended"], "k")

    def test_waiters(self):
        """In the order of the queue."""
        self.acquired("--key", "k", "--ttl", "1m")
        for n in 1, 2:
            self.start("acquire", "--key", "k", "--reason", f"waiter {n}")
            self.until_waiting(n)
        self.assertView(["waiting  1 .*reason waiter 1", "         2 .*reason waiter 2"], [], "k")
        self.assertJson(["waiter 1", "waiter 2"], lambda j: [w["reason"] for w in j["waiters"]],
                        "k")
        self.is_held("k")

    def test_process_and_delay(self):
        """A holder bound to its process, and a lock-delay after it vanished."""
        held = self.hold_by_input("k", "--lock-delay", "60s")
        self.assertView([" +lease lasts as long as its process"], [], "k")
        holder = self.holder()
        self.assertEqual((held.pid, True, None), (holder["pid"], holder["attached"],
                                                  holder["lease_remaining_ms"]))
        held.send(signal.SIGKILL).end(-9)
        self.dlock("acquire", "--key", "k", "-n", wanted=75)  # notices the death
        self.assertView(["state +delayed.*", ".*lease vanished; lock-delay for .*"], [], "k")
        self.is_held("k")
        self.listed("k\n", "--stale", "-o", "KEY")

    def test_killed(self):
        """A holder that was killed is stale until the key is taken."""
        self.hold_by_input().send(signal.SIGKILL).end(-9)
        self.assertView(["state    stale, exclusive",
                         " +lease has ended with its process; the key can be taken"], [], "k")
        self.listed("k\n", "--stale", "-o", "KEY")
        self.key("-n", "--", "true")
        self.assertView(["state    free"], [], "k")

    def test_ended_process(self):
        """A lease whose process has ended, as that of acquire."""
        self.acquired("--key", "k")
        self.assertView([" +the process that took it has ended, as with acquire"], [], "k")
        self.hold_by_job("j")
        self.assertView([], [".*has ended"], "j")

    def test_last_start(self):
        """Of --once-per, and when the next is possible."""
        self.key("--once-per", "day", "--", "true")
        view = self.assertView(["state +free", rf" +started {TIME}, [0-9.]+[um]?s ago, with "
                                "--once-per, lasted [0-9.]+[um]?s"], [], "k")
        self.assertEqual(1, view.out.count("started"))
        # "29.9s" in the last minute of an hour
        self.assertLine("next +by --once-per hour in [0-9.ms]+, day in [0-9.hms]+, week in "
                        "[0-9.dhms]+, month in [0-9.dhms]+, or a duration after the start; "
                        "time zone .+", view)
        self.assertJson("20", lambda j: j["last_start"][:2], "k")
        watch = self.start("inspect", "k", "--watch=10ms", "-J")
        watch.prints("\n")
        self.assertIn('"last_start":"20', watch.out.splitlines()[0])
        write("locks/k/started", "other\n")  # JSON says why it is not known
        self.assertJson((None, False, "is not what this version of dlock writes"), lambda j: (
            j["last_start"], j["complete"], j["error"][-40:]), "k")


class Watch(Case):
    """inspect --watch at a terminal."""

    def heading(self, columns, *words):
        run = Terminal(self, "inspect", "--watch=1h", *words, columns=columns)
        run.shows("KEY ").shows("1 key")
        heading = re.search("KEY .*", run.out)[0]
        run.type("q").end(0)
        return re.findall("[A-Z]+", heading.split("\x1b")[0])

    def test_80_columns(self):
        """The token goes first; waiters and reason stay, and what --columns names."""
        self.env["TERM"] = "xterm"
        self.acquired("--key", "nightly", "--reason", "report")
        every = "KEY STATE MODE HOLDER ASKED AGE LEASE TOKEN WAIT REASON".split()
        self.assertEqual(every, self.heading(200))
        short = self.heading(80)
        self.assertEqual([one for one in every if one in short], short)
        self.assertNotIn("TOKEN", short)
        self.assertEqual(["WAIT", "REASON"], short[-2:])
        self.assertEqual(["KEY", "TOKEN"], self.heading(20, "-o", "KEY,TOKEN"))


class Unknown(Case):
    """What cannot be known is never free."""

    def test_revoke_asks_once(self):
        """release --revoke, --force: a store that does not answer is not asked for more."""
        self.needs_backend("redis")
        for what in "--revoke", "--revoke --wait 1s", "--force --yes", "--force --token 1":
            with self.subTest(what):
                self.refused(69, "", "release", "-b", "redis://127.0.0.1:1", "--connect-timeout",
                             "200ms", "--op-timeout", "200ms", "--key", "k", *what.split(),
                             "--trace", "trace")
        self.assertEqual("", read("trace"))

    def test_state_deleted_or_damaged(self):
        """?, and 69 with --check."""
        held = self.hold_by_job()
        held.send(signal.SIGSTOP)  # it would write its record again
        os.unlink("locks/k/state")
        self.view("--check", "k", wanted=69)
        self.assertView([r"state +\?, the state file was lost; 1 process.*"], [], "k", wanted=69)
        columns = ("--no-heading", "-o", "KEY,STATE")
        self.assertView([r"k  \?"], [], *columns, wanted=69)
        self.assertJson(("unknown", False, "the state file was l"), lambda j: (
            j["state"], j["complete"], j["error"][:20]), "k")
        held.send(signal.SIGKILL).end(-9)
        self.acquired("--key", "d")
        write("locks/d/state", 3000 * "x")
        self.view("--check", "d", wanted=69)
        self.assertView([r"d  \?"], [], *columns, wanted=69)

    def test_unreachable_store(self):
        """It is ?, never free, and 69."""
        def seen(*words):
            return self.dlock("inspect", "-b", "fake:?fail_open=unavailable", *words, dlock=FAKE,
                              wanted=69)
        done = seen("k")
        self.assertLine(r"state +\?", done)
        self.assertEqual(1, done.err.count("\n"))
        self.assertRegex(seen("k", "--no-heading").out, r"\Ak +\? +\?")
        self.assertEqual("k,?,?,?,?,?,?,?,?,?\n", seen("k", "--csv", "--no-heading").out)
        one, all_keys = seen("-J", "k").json, seen("-J").json
        self.assertEqual(("k", "unknown", False), (one["key"], one["state"], one["complete"]))
        self.assertEqual((None, False), (all_keys["keys"], all_keys["complete"]))
        for words in [], ["--check", "k"]:
            done = seen(*words)
            self.assertRegex(done.err, r"\Adlock: [^\n]*\n\Z")
            self.assertEqual("", done.out)

    def test_doctor(self):
        """It calls a directory bad that all users may write to, or that is below one."""
        os.mkdir("open")
        os.chmod("open", 0o1777)
        os.mkdir("open/below", 0o700)
        for place in "open", "open/below", "open/missing":
            done = self.view("--doctor", "-b", f"file:{self.dir}/{place}", wanted=1)
            self.assertLine("BAD +way to it +all users may write to .*/open", done)
            self.assertLine("not fit to keep locks: 1 bad, 0 warnings, 0 unknown", done)


harness.main()
