# SPDX-License-Identifier: Apache-2.0
"""What a command under `dlock run` sees, and what dlock shows of it."""
import fcntl, json, os, re, resource, signal, socket, struct, subprocess
import harness
from harness import DLOCK, children, read, state_of, tool, within, write

PIPE = subprocess.PIPE
TREE = tool("resisting_tree")


class Shown(harness.Case):
    def test_verbose(self):
        """-v reports acquire and release, -vv what happens in between."""
        done = self.key("-v", "--", "true")
        self.assertRegex(done.err, r"\Adlock: k: acquired after [0-9.]+[um]?s, token [0-9]+\n"
                         r"dlock: k: released, [0-9.]+[um]?s after the start\n\Z")
        done = self.key("-vv", "--", "sh", "-c", "exit 3", wanted=3)
        self.assertLine("dlock: k: job_dead", done.err)
        self.assertLine("dlock: k: exit: result command, code 3", done.err)
        done = self.key("--", "true")
        self.assertEqual("", done.out + done.err)

    def test_last_of_quiet_and_verbose_counts(self):
        for options, status, said in ((("-q", "-v"), 0, "acquired"), (("-qv",), 0, "acquired"),
                                      (("-vv", "-q"), 0, "")):
            with self.subTest(options):
                err = self.key(*options, "--", "true", wanted=status).err
                self.assertIn(said, err)
                self.assertEqual(bool(said), bool(err))
        done = self.key("-v", "-q", "--", "true", env={"DLOCK_VERBOSE": "1"})
        self.assertEqual("", done.err)
        self.key("--", "true", env={"DLOCK_VERBOSE": "1", "DLOCK_QUIET": "1"}, wanted=78)

    def test_cannot_be_executed(self):
        """127 or 126, one line, and the lock is released first."""
        write("plain")
        for what, status, why in ((self.dir + "/absent", 127, "No such file or directory"),
                                  (self.dir + "/plain", 126, "Permission denied"),
                                  (self.dir, 126, "Permission denied"),
                                  ("/proc/self/status", 126, "Permission denied"),
                                  ("echo hi", 127, "No such file or directory; "
                                   "-c runs a line by the shell")):
            with self.subTest(what):
                run = self.start_key("--", what, *([] if " " in what else ["arg"]))
                run.end(status)
                self.assertEqual("acquired job_dead released exit", run.told())
                self.assertEqual(f"dlock: {what}: {why}\n", run.err)
                self.key("-n", "--", "true")

    def test_events(self):
        """In order, with a rising t, to exit; the file is its owner's."""
        run = self.start_lease("--ttl", "2s", "--", "sh", "-c", "read go; exit 5", stdin=PIPE)
        run.event("renewed")
        run.go().end(5)
        self.assertRegex(run.told(), r"\Aacquired( renewed)+ job_dead released exit\Z")
        times = [event["t"] for event in run.events()]
        self.assertEqual(sorted(times), times)
        for event in run.events():
            self.assertRegex(event["time"], r"\A20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
            self.assertEqual((socket.gethostname(), "k"), (event["host"], event["key"]))
        last = run.events()[-1]
        self.assertEqual(("command", 5), (last["result"], last["code"]))
        self.assertEqual(0o600, os.stat(run.name + ".events").st_mode & 0o777)

    def test_status_descriptor_or_file(self):
        """Digits are a descriptor, all else is a file; the last one counts."""
        reader, writer = os.pipe()
        self.lease("--status", "none", "--status", str(writer), "--", "true", pass_fds=[writer])
        os.close(writer)
        by_descriptor = rest_of(reader)
        with open("none", "w") as none:
            number = str(none.fileno())
            self.lease("--status", number, "--status", "./9", "--", "true",
                       pass_fds=[none.fileno()])
        self.assertEqual("", read("none"))
        names = [[json.loads(line)["event"] for line in text.splitlines()]
                 for text in (by_descriptor, read("9"))]
        self.assertEqual(*names)
        self.assertEqual("exit", names[0][-1])

    def test_full_disk(self):
        """One warning for all events that are lost, and the command runs."""
        for option, words in (("--status", []), ("--trace", ["--status", "events"])):
            done = self.key(*words, option, "/dev/full", "--", "sh", "-c", "exit 5", wanted=5)
            self.assertEqual(f"dlock: {option}: No space left on device; what is missing there is "
                             "not written again\n", done.err)
        self.assertIn('"event":"exit"', read("events"))

    def test_status_descriptor_not_open(self):
        """Refused before anything happens."""
        done = self.key("--status", "8", "--", "touch", "ran", wanted=64)
        self.assertRegex(done.err, r"\Adlock: .*--status.*8")
        self.not_run()

    def test_status_that_is_not_read(self):
        """A reader that left, or does not read, changes nothing."""
        reader, writer = os.pipe()
        os.close(reader)
        self.lease("--status", str(writer), "--", "sh", "-c", "exit 4", wanted=4,
                   pass_fds=[writer])
        os.close(writer)
        reader, writer = harness.full_pipe()  # dlock writes for at most 2 s and exits
        self.lease("--status", str(writer), "--", "sh", "-c", "exit 4", wanted=4,
                   pass_fds=[writer], bound=20)
        os.close(reader)
        os.close(writer)

    def test_trace(self):
        """One JSON object per line, invoke before its answer, t rising."""
        self.lease("--trace", "t", "--ttl", "2s", "--", "true")
        lines = [json.loads(line) for line in read("t").splitlines()]
        steps = [f"{line['ev']} {line['f']}" for line in lines]
        self.assertEqual(["invoke acquire", "ok acquire"], steps[:2])
        self.assertEqual("exit run", steps[-1])
        for step in "child_start job", "tree_dead job", "ok release":
            self.assertIn(step, steps)
        self.assertLess(steps.index("tree_dead job"), steps.index("invoke release"))
        times = [line["t"] for line in lines]
        self.assertEqual(sorted(times), times)

    def test_trace_of_a_late_grant(self):
        """One that came too late to start the job is released there, too."""
        self.lease("--trace", "t", "--ttl", "2s", "-w", "20s", "--", "true",
                   faults="lose=acquire&drip=1200ms")
        steps = [(line["ev"], line["f"]) for line in map(json.loads, read("t").splitlines())]
        self.assertEqual((2, 2), (steps.count(("ok", "acquire")),
                                  steps.count(("invoke", "release"))))


def rest_of(descriptor):
    with os.fdopen(descriptor, "rb") as pipe:
        return harness.rest(pipe)


class Given(harness.Case):
    """What the command gets."""

    def test_descriptors(self):
        """Exactly those that dlock was started with."""
        write("three")
        write("nine")
        for redirections, options in (
                ("</dev/null >out 2>err", ""), ("</dev/null >out 2>err 3<three 9>nine", ""),
                ("</dev/null >out 2>err 3<three 4<>nine 7>>nine", ""), ("<&- >out 2>err", ""),
                ("</dev/null >&- 2>err", ""), ("</dev/null >out 2>&-", ""), ("<&- >&- 2>&-", ""),
                ("<&- >&- 2>&- 5>nine", ""),
                ("</dev/null >out 2>err 3<three", "--trace t --status s")):
            with self.subTest(redirections + options):
                for file, before in (("direct", ""),
                                     ("under", f'"$DLOCK" run --key k {options} -- ')):
                    self.program("sh", "-c", f'exec {redirections}; exec {before}"$0" fds {file}',
                                 tool("probe"))
                self.assertEqual(read("direct"), read("under"))
                os.unlink("direct")
                os.unlink("under")

    def test_status_descriptor(self):
        """It is not passed on."""
        probe = 'exec </dev/null >out 2>err; exec "$0" fds direct'
        self.program("sh", "-c", probe, tool("probe"))
        self.program("sh", "-c", 'exec </dev/null >out 2>err 8>status; '
                     'exec "$DLOCK" run --key k --status 8 -- "$0" fds under', tool("probe"))
        self.assertEqual(read("direct"), read("under"))
        self.assertIn('"event":"exit"', read("status"))

    def test_arguments(self):
        """Byte for byte."""
        words = ["", " ", "--", "-n", "--key", "a  b", "line\nline\n", b"\xff\xfe\x01", "$HOME",
                 "*", "it's", '"', "\\", "é"]
        done = self.program(DLOCK, "run", "--key", "k", "--", "printf", r"%s\0", *words)
        wanted = [word.decode(errors="surrogateescape") if isinstance(word, bytes) else word
                  for word in words]
        self.assertEqual(wanted, done.out.split("\0")[:-1])

    def test_shell_line(self):
        """-c runs a shell with the arguments after --."""
        done = self.key("-c", 'printf "%s|" "$0" "$@"; exit 3', "--", "a", "b c", "-x", wanted=3)
        self.assertEqual("sh|a|b c|-x|", done.out)
        self.assertEqual("0\n", self.key("-c", "echo $#", "--").out)

    def variables(self, *words, run=None, **more):
        text = (run or self.key)(*words, "--", "env", "-0", **more).out
        return dict(line.split("=", 1) for line in text.split("\0")[:-1])

    def test_variables(self):
        env = self.variables("--ttl", "7s", run=self.lease)
        token = env["DLOCK_TOKEN"]
        self.assertRegex(token, r"\A[1-9][0-9]*\Z")
        wanted = {"DLOCK_HELD": "1", "DLOCK_KEY": "k", "DLOCK_TTL_MS": "7000",
                  "DLOCK_SEQUENCER": f"v1:fake.lease:k:X:{token}"}
        self.assertEqual(wanted, {name: env.get(name) for name in wanted})
        self.assertTrue(env["DLOCK_HANDLE"])
        grant, = json.loads(env["DLOCK_GRANTS"])
        self.assertEqual(("k", f"v1:fake.lease:k:X:{token}", "X"),
                         (grant["key"], grant["sequencer"], grant["mode"]))
        self.assertFalse([name for name in env if re.match("DLOCK_(SLOT|STATUS|ERROR)", name)])

    def test_variables_from_outside(self):
        """They are replaced or removed; so are those of modes that this one is not."""
        outside = {"DLOCK_TOKEN": "5", "DLOCK_SLOT": "7", "DLOCK_HELD": "maybe",
                   "DLOCK_GRANTS": "x", "DLOCK_PASSWORD": "secret",
                   "DLOCK_SENTINEL_PASSWORD": "secret", "REDISCLI_AUTH": "kept"}
        env = self.variables(env=outside)
        self.assertEqual("1", env["DLOCK_HELD"])
        self.assertNotEqual("5", env["DLOCK_TOKEN"])
        self.assertNotIn("DLOCK_SLOT", env)
        self.assertNotIn("secret", str(env))
        self.assertEqual("kept", env["REDISCLI_AUTH"])
        for options, slot, mode in ((("--limit", "3"), "0", "P"), (("-s",), None, "S")):
            env = self.variables(*options, env=outside)
            self.assertEqual(slot, env.get("DLOCK_SLOT"))
            self.assertRegex(env["DLOCK_SEQUENCER"], rf"\Av1:file\.lease:k:{mode}:[0-9]+\Z")

    def test_no_env(self):
        """No variables are set, the password is removed all the same; nothing else changes."""
        self.env["DLOCK_PASSWORD"] = "secret"
        outside = self.program("env", "-0").out.split("\0")[:-1]
        env = self.variables("--no-env")
        self.assertEqual({line.partition("=")[0]: line.partition("=")[2] for line in outside
                          if not line.startswith("DLOCK_PASSWORD=")}, env)

    def test_empty_environment(self):
        done = self.dlock("run", "-b", self.file, "--key", "k", "--no-env", "--", "/usr/bin/env",
                          before=("env", "-i"))
        self.assertEqual("", done.out + done.err)
        done = self.dlock("inspect", "-b", self.file, before=("env", "-i"))
        self.assertIn("free", done.out)

    def test_umask_limits_directory(self):
        def narrow():
            os.umask(0o027)
            resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
            resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))
        done = self.key("--", "sh", "-c", "umask; ulimit -n; ulimit -t; pwd", preexec_fn=narrow)
        self.assertEqual(f"0027\n300\n1000\n{self.dir}\n", done.out)

    def test_pipes_end_with_the_command(self):
        """When it closes its end, even before dlock ends."""
        run = self.start_key("--", "sh", "-c", "echo line; exec >&-; read go", stdin=PIPE,
                             stdout=PIPE)
        self.assertEqual("line\n", harness.rest(run.process.stdout))
        self.assertFalse(run.ends_within(0))
        run.go().end(0)
        run.process.stdout.close()
        # A writer gets SIGPIPE.
        os.mkfifo("gate")
        writer = subprocess.Popen(["yes"], stdout=PIPE, env=self.env)
        run = self.start_key("--", "sh", "-c", "exec <&-; read go <gate", stdin=writer.stdout)
        writer.stdout.close()
        self.assertEqual(-signal.SIGPIPE, writer.wait(harness.BOUND))
        self.assertFalse(run.ends_within(0))
        write("gate", "go\n")
        run.end(0)

    def test_session_and_hangup(self):
        """setsid and nohup."""
        self.key("--", "sh", "-c", "exit 6", wanted=6, before=("setsid", "-w"))
        run = self.start_key("--", "sh", "-c", "echo up; read go; exit 6", stdin=PIPE,
                             before=("nohup",))
        run.prints("up")
        run.send(signal.SIGHUP).go().end(6)


class Nested(harness.Case):
    def run_inner(self, *words, **more):
        return self.dlock("run", "--key", "inner", "--", *words, **more)

    def test_outer_is_killed(self):
        """The inner lock and job end."""
        mark = self.dir + "/tree"  # of its processes
        os.mkfifo(mark)
        outer = self.start_key("--", DLOCK, "run", "--key", "inner", "--", TREE, mark)
        with open(os.open(mark, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as tree:
            within("the tree", lambda: tree.read(100) == b"complete 12\n")
        outer.send(signal.SIGKILL).end(-9)
        # The next holder of each key finds no living member of that tree.
        for key in "inner", "k":
            done = self.dlock("run", "--key", key, "--", TREE, "--count", mark, bound=20)
            self.assertEqual("0\n", done.out)

    def test_until_the_last_member(self):
        """The inner lock is held until the last member of the inner job is dead. The kernel frees
        the memory of a killed process before it closes its descriptors: this one, which has 60 MB
        and a lock of flock(1), dies later than a guard and a dlock that are killed with it."""
        for killed in "pid", "guard":
            with self.subTest(killed):
                outer = self.start_key(
                    "--", DLOCK, "run", "--key", "inner", "--", "flock", "judge", "perl", "-e",
                    'my $x = "x" x 60_000_000; open(my $up, ">", "up"); sleep 60')
                outer.until("the inner job", lambda: os.path.exists("up"))
                waiter = self.start("run", "--key", "inner", "--", "flock", "-n", "judge", "true")
                waiter.event("waiting")
                harness.kill(getattr(outer, killed))
                waiter.end(0)
                outer.end()
                os.unlink("up")

    def test_lock_of_an_outer_run_that_is_gone(self):
        """recipe flock: a nested run ends its job, though a stranger keeps the mark of the lock."""
        self.env["DLOCK_BACKEND"] += "?recipe=flock"
        inner = f"{DLOCK} run --status inner --ttl 3s --key k -- sleep 1000; true"
        outer = self.start_key("--ttl", "3s", "--", "sh", "-c", inner)
        outer.until("the inner run", lambda: '"acquired"' in read("inner"))
        with open("locks/k") as lock:
            whole_file = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, whole_file)
            # Stopped, so that neither kills the inner run. The guard is killed before its parent:
            # the death of its parent orphans its process group, and then the kernel continues it.
            pids = outer.guard, outer.pid
            harness.kill(*pids, sig=signal.SIGSTOP)
            within("both are stopped", lambda: all(state_of(pid) == "T" for pid in pids))
            harness.kill(*pids)
            within("the inner run ends", lambda: '"lost"' in read("inner"))
            self.key("-n", "--", "true")

    def test_inherited_guard(self):
        """It is identified by pid and start time."""
        self.key("--", "bash", "-c", '''
            "$DLOCK" run --key k -n -- true || exit 1
            export DLOCK_GRANTS=${DLOCK_GRANTS/\\"start\\":/\\"start\\":1}
            "$DLOCK" run --key k -n -- true''', wanted=75)

    def test_no_ancestor(self):
        """A valid hold of a dlock that is no ancestor is not trusted."""
        outer = self.start_key("--", "sh", "-c", 'echo "$DLOCK_GRANTS"; exec sleep 60')
        outer.prints("}]\n")
        self.key("-n", "--", "touch", "ran", env={"DLOCK_GRANTS": outer.out.strip()}, wanted=75)
        self.not_run()

    def test_hold_that_is_over(self):
        """An ancestor's hold that is no longer valid is not trusted: an ordinary contender."""
        done = self.key("--on-lost", "signal:CONT", "--", "sh", "-c", '''
            "$DLOCK" release --key k --force --yes && "$DLOCK" acquire --key k --ttl 1m >taken &&
              "$DLOCK" run --key k -n -- touch ran
            echo nested=$?''', wanted=None)
        self.assertLine("nested=75", done)
        self.assertNotEqual("", read("taken"))
        self.not_run()


class FirstOfNamespace(harness.Case):
    """As PID 1: statuses, signals as 128+n, orphans, TERM."""
    before = ("unshare", "-pf", "--mount-proc")

    def setUp(self):
        super().setUp()
        if self.program(*self.before, "true", wanted=None).status:
            self.skipTest("needs the right to make namespaces")

    def test_statuses(self):
        for status, options, job in (
                (6, (), "exit 6"), (138, (), "kill -USR1 $$"),
                (6, ("--descendants", "kill"), "(setsid sleep 60 &) & exit 6")):
            with self.subTest(job):
                self.lease(*options, "--", "sh", "-c", job, wanted=status, before=self.before)

    def test_orphans_and_signals(self):
        run = self.start_lease("--", "sh", "-c", "echo up; exec sleep 60", before=self.before)
        run.prints("up")
        inside, = children(run.pid)  # dlock, seen from outside
        # A process of `docker exec` leaves an orphan, which ends while the command runs.
        os.mkfifo("gate")
        self.program("nsenter", "-t", str(inside), "-p", "-m", "sh", "-c",
                     'cd "$0" && { (read -r x <gate) & }', self.dir, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
        run.until("the orphan is its child", lambda: len(children(inside)) == 2)
        write("gate", "go\n")
        run.until("the orphan is reaped", lambda: len(children(inside)) == 1)
        os.kill(inside, signal.SIGTERM)
        run.event("exit")
        run.end(143)


harness.main()
