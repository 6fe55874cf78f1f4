# SPDX-License-Identifier: Apache-2.0
"""How a command under `dlock run` ends."""
import glob, os, re, shutil, signal, subprocess, threading, time
import harness
from harness import DLOCK, alive, children, kill, read, tool, within

PIPE, TERM, INT = subprocess.PIPE, signal.SIGTERM, signal.SIGINT
SIGNAL_JOB = tool("signal_job")
# A command that ignores what asks it to end, reports it, and lives.
STUBBORN = ["sh", "-c", 'trap "" TERM INT QUIT; echo up; while :; do sleep 1; done']


class Asked(harness.Case):
    """To end, by a signal or a time."""

    def test_kill_after(self):
        """TERM, then KILL after --kill-after, at once with 0: the whole tree."""
        for after in "300ms", "0":
            with self.subTest(after):
                run = self.start_key("-k", after, "--", *STUBBORN)
                run.prints("up")
                run.send(TERM).end(-9)
                self.assertEqual("acquired kill job_dead released exit", run.told())
                self.key("-n", "--", "true")

    def test_second_signal(self):
        """It escalates. (The same one within 100 ms does not: pure, policy_signal_test.)"""
        run = self.start_key("-k", "60s", "--", *STUBBORN)
        run.prints("up")
        run.send(TERM).send(INT).end(-9)
        run = self.start_key("-k", "60s", "--", SIGNAL_JOB, "print")
        run.prints("up")
        run.send(INT).prints("got 2")
        self.assertFalse(run.ends_within(0.2))  # the next one is another: more than 100 ms later
        run.send(INT).end(-9)

    def test_max_run(self):
        """124, with TERM first and KILL after --kill-after."""
        self.key("--max-run", "300ms", "--", "sleep", "60", wanted=124)
        # Ignored from its start: the shell of the command might not come to its trap in 300 ms.
        run = self.start_key("--max-run", "300ms", "-k", "300ms", "--", *STUBBORN,
                             preexec_fn=lambda: signal.signal(TERM, signal.SIG_IGN))
        run.end(124)
        self.assertEqual("acquired term kill job_dead released exit", run.told())
        self.key("--max-run", "20s", "--", "sh", "-c", "exit 3", wanted=3)
        self.key("--max-run", "0", "--", "sh", "-c", "sleep 0.2; exit 3", wanted=3)

    def test_signal(self):
        """--signal: the signal of a request to end."""
        self.key("--max-run", "300ms", "--signal", "USR1", "--", SIGNAL_JOB, "exit", "9",
                 wanted=124)
        # Pending until the command takes it, should that be later than 300 ms.
        run = self.start_key("--max-run", "300ms", "--signal", "12", "--", SIGNAL_JOB, "print",
                             before=("env", "--block-signal=USR2"))
        run.prints("got 12")
        run.send(TERM).end(124)


    def no_process(self, pid):
        self.refused(64, f"--watch-pid: there is no process {pid}", "run", "--key", "k",
                     "--watch-pid", str(pid), "--", "touch", "ran")
        self.assertFalse(os.path.exists("ran"))

    def test_watched(self):
        """The end of the process of --watch-pid is as a TERM: to a command, and to a wait."""
        for kill_after in [], ["-k", "300ms"]:
            with self.subTest(kill_after):
                watched = subprocess.Popen(["sleep", "60"])
                self.addCleanup(watched.kill)
                words = ["--watch-pid", str(watched.pid), *kill_after, "--"]
                job = STUBBORN if kill_after else ["sh", "-c", "echo up; exec sleep 60"]
                run = self.start_key(*words, *job)
                run.prints("up")
                wait = self.start_key("--watch-pid", str(watched.pid), "--", "touch", "ran")
                wait.event("waiting")
                watched.kill()
                wait.end(-TERM)
                run.end(-9 if kill_after else -TERM)
                run.says("k: the process of --watch-pid has ended\n")
                self.key("-n", "--", "true")
                self.assertFalse(os.path.exists("ran"))
                for _ in "not reaped yet", "reaped":
                    self.no_process(watched.pid)
                    watched.wait()
        over = threading.Event()
        self.addCleanup(over.set)
        thread = threading.Thread(target=over.wait)
        thread.start()
        self.no_process(thread.native_id)
        self.key("--watch-pid", str(os.getpid()), "--", "sh", "-c", "exit 3", wanted=3)


class Descendants(harness.Case):
    def test_wait(self):
        """A line after a second names pids and option; the lock is held to their end."""
        for name in "gate", "up":
            os.mkfifo(name)
        run = self.start_key("--", "sh", "-c", "setsid sh -c 'echo $$; echo >up; read go <gate' & "
                             "read up <up; exit 5")
        pid = run.prints("\n") and run.out.strip()
        run.says("\n")
        self.assertRegex(run.err, rf"\Adlock: k: [^\n]*[ :]{pid}[ ;,][^\n]*--descendants"
                         r"[^\n]*kill[^\n]*\n\Z")
        self.key("-n", "--", "true", wanted=75)
        ended = run.event("command_ended")
        self.assertEqual((5, [{"pid": int(pid), "name": "sh"}]), (ended["code"], ended["members"]))
        harness.write("gate", "go\n")
        run.end(5)
        self.assertEqual("acquired command_ended job_dead released exit", run.told())
        self.key("-n", "--", "true")

    def test_end_of_the_program(self):
        """Its event names a signal, and eight members at most."""
        os.mkfifo("gate")
        run = self.start_key("-vv", "--", "sh", "-c", """
            for i in 1 2 3 4 5 6 7 8 9; do setsid sh -c 'read go <gate' & done; kill -USR1 $$""")
        ended = run.event("command_ended")
        self.assertEqual((signal.SIGUSR1, 8), (ended["signal"], len(ended["members"])))
        run.says("command_ended: signal 10, members ")
        run.send(TERM).end(-signal.SIGUSR1)

    def test_kill(self):
        """TERM, then KILL after --kill-after, and the command's status."""
        self.key("--descendants", "kill", "-k", "300ms", "--", "sh", "-c",
                 "setsid sleep 60 & exit 5", wanted=5)
        os.mkfifo("up")
        run = self.start_key("--descendants", "kill", "-k", "300ms", "--", "sh", "-c", """
            setsid sh -c 'trap "" TERM; echo $$; echo >up; while :; do sleep 1; done' &
            read up <up; exit 5""")
        run.end(5)
        self.assertRegex(run.told(), r"kill job_dead released exit\Z")
        self.assertFalse(alive(int(run.out)))
        self.key("-n", "--", "true")

    def test_signals(self):
        """During the wait for descendants they reach them."""
        run = self.start_key("--", "sh", "-c", """
            setsid sh -c 'trap "echo bye; exit" USR1; echo up; while :; do sleep 0.05; done' &
            exit 5""")
        run.prints("up")
        run.says("--descendants")
        run.send(signal.SIGUSR1).end(5)
        self.assertEqual("up\nbye\n", run.out)


class Released(harness.Case):
    """--descendants=release: the lock ends with the program, what it left behind goes on."""
    # A member that nothing but KILL ends, with a pid in the file `member`, and then `rest`.
    LEAVES = """setsid sh -c 'trap "" TERM HUP INT; echo $$ >member; echo >up; read go <gate;
                              echo bye >said' & read up <up; echo $$; """

    def leaves(self, rest, *words, start=None):
        """A run that has made its member."""
        for name in "up", "gate":
            if not os.path.exists(name):
                os.mkfifo(name)
        run = (start or self.start_key)("--descendants", "release", *words, "--", "sh", "-c",
                                        self.LEAVES + rest)
        run.prints("\n")
        self.member = int(read("member"))
        return run

    def lives(self):
        """The member does, until it is told to end, and by itself."""
        self.assertTrue(alive(self.member))
        harness.write("gate", "go\n")
        within("the member goes on", lambda: read("said") == "bye\n")

    def test_released(self):
        """When the program has ended. The member is in the control group of dlock itself."""
        for recipe in "lease", "flock":
            with self.subTest(recipe):
                run = self.leaves("read go; exit 5", "--recipe", recipe, start=lambda *words: (
                    self.start_key(*words, stdin=PIPE)))
                guard = run.guard
                self.key("-n", "--recipe", recipe, "--", "true", wanted=75)
                run.go().end(5)
                self.assertEqual("acquired command_ended released exit", run.told())
                self.assertEqual("", run.err)
                self.key("-n", "--recipe", recipe, "--", "true")
                self.assertEqual(read("/proc/self/cgroup"), read(f"/proc/{self.member}/cgroup"))
                self.assertEqual([], glob.glob(f"/sys/fs/cgroup/**/dlock-{guard}-*",
                                               recursive=True))
                self.lives()
                os.unlink("said")
            shutil.rmtree("locks/k", ignore_errors=True)  # flock needs a file of that name

    def test_nothing_left(self):
        """It is as always. --explain says what is given up."""
        self.assertLine("descendants +left alone when the command has ended, without the lock.*",
                        self.key("--descendants", "release", "--explain", "--", "true"))
        run = self.start_key("--descendants", "release", "--", "sh", "-c", "exit 5")
        run.end(5)
        self.assertEqual("acquired job_dead released exit", run.told())

    def test_lease(self):
        """It is released, or left to run out with --min-hold, and dlock ends at once."""
        run = self.leaves("exit 5", start=self.start_lease)
        run.end(5)
        self.assertEqual("acquired command_ended released exit", run.told())
        self.lives()
        run = self.leaves("exit 5", "--min-hold", "20s", start=self.start_lease)
        run.end(5)
        self.assertEqual("acquired command_ended detached exit", run.told())
        self.assertTrue(alive(self.member))

    def test_min_hold(self):
        """Of a lock that cannot outlive dlock: a signal ends it, and does not reach the member."""
        run = self.leaves("exit 5", "--recipe", "flock", "--min-hold", "60s")
        run.says("--min-hold")
        self.key("-n", "--recipe", "flock", "--", "true", wanted=75)
        run.send(TERM).end(5)
        self.assertEqual("acquired command_ended released exit", run.told())
        self.lives()

    def test_dlock_is_killed(self):
        """While the program lives: the whole job dies with it."""
        run = self.leaves("exec sleep 60")
        program = int(run.out)
        run.send(signal.SIGKILL).end(-9)
        within("the end of the job", lambda: not alive(program) and not alive(self.member))
        self.key("-w", "20s", "--", "true")

    def test_ended_by_force(self):
        """An end that was asked for while the program lived is that of the whole job."""
        for words, end in (([], TERM), (["--max-run", "5s"], None)):
            with self.subTest(words):
                run = self.leaves('trap "exit 5" TERM; while :; do sleep 0.05; done',
                                  "-k", "1s", *words)
                if end:
                    run.send(end)
                run.end(5 if end else 124)
                self.assertRegex(run.told(), r"kill job_dead released exit\Z")
                self.assertFalse(alive(self.member))

    def test_lost(self):
        """So is the loss of the lock."""
        run = self.leaves('trap "exit 5" TERM; while :; do sleep 0.05; done', "--ttl", "9s",
                          start=lambda *words: self.start_lease(*words, faults="lost_after=1"))
        run.end(123)
        self.assertRegex(run.told(), r"kill job_dead exit\Z")
        self.assertFalse(alive(self.member))

    def test_end_behind_the_program(self):
        """What comes before the guard has seen the end of the program counts as before it."""
        run = self.leaves("read go; exit 5", "-k", "5s",  # the guard is stopped meanwhile
                          start=lambda *words: self.start_key(*words, stdin=PIPE))
        program, guard = int(run.out), run.guard
        kill(guard, sig=signal.SIGSTOP)
        within("the guard is stopped", lambda: re.search(
            r"State:\s*T", read(f"/proc/{guard}/status")))
        run.go()
        within("the program has ended", lambda: not alive(program))
        run.send(TERM)
        run.until("dlock has read it", lambda: not int(re.search(
            r"ShdPnd:\s*(\w+)", read(f"/proc/{run.pid}/status"))[1], 16))
        # In its one wait, so it has forwarded what it read.
        run.until("dlock has forwarded it", lambda: re.search(
            r"State:\s*S", read(f"/proc/{run.pid}/status")))
        kill(guard, sig=signal.SIGCONT)
        run.end(5)
        within("the end of the member", lambda: not alive(self.member))
        self.key("-w", "20s", "--", "true")

    def test_stopped(self):
        """A dlock that is stopped meanwhile holds the lock; its death frees it, and nothing more."""
        run = self.leaves("read go; exit 5", start=lambda *words: (
            self.start_key(*words, stdin=PIPE)))
        guard = run.guard
        run.send(signal.SIGSTOP)
        run.go()
        within("the guard has ended", lambda: not alive(guard))
        self.key("-n", "--", "true", wanted=75)
        run.send(signal.SIGKILL).end(-9)
        self.key("-w", "20s", "--", "true")
        self.lives()

    def test_nested(self):
        """What an inner run leaves behind is of the outer job."""
        outer = self.leaves("exit 5", start=lambda *words: self.run_dlock(
            "--key", "outer", "--", "sh", "-c", '"$@"; echo $? >inner', "sh",
            DLOCK, "run", "--key", "k", *words))
        within("the inner run has ended", lambda: read("inner") == "5\n")
        self.key("-n", "--", "true")
        self.is_held("outer")
        harness.write("gate", "go\n")
        outer.end(0)

    def test_inner_run_is_left(self):
        """Its own key is held on; the guard of the outer run does not hold it, or wait for it."""
        os.mkfifo("gate")
        run = self.start_key("--descendants", "release", "--", "sh", "-c", """
            "$DLOCK" run --key inner -- sh -c 'echo up; read go <gate' & read go; exit 5""",
                             stdin=PIPE)
        run.prints("up")
        guard = run.guard
        run.go().end(5)
        self.key("-n", "--", "true")
        self.is_held("inner")
        self.assertFalse(alive(guard))
        harness.write("gate", "go\n")
        self.until_free("inner")


class Lost(harness.Case):
    """The lock is lost, or may be."""

    def test_lost(self):
        """123, TERM to the command, and no release."""
        # Pending until the command takes it, should that be later than the loss.
        run = self.start_lease("--ttl", "6s", "--", SIGNAL_JOB, "print", faults="lost_after=0",
                               before=("env", "--block-signal=TERM"))
        run.end(123)
        self.assertEqual("up\ngot 15\n", run.out)
        self.assertRegex(run.told(), r"\Aacquired (lost term|term lost) job_dead exit\Z")
        self.assertIn("the lock is lost", run.err)

    def test_exec(self):
        """--on-lost exec: the command runs beside the job, with its variables; the job goes on."""
        run = self.start_lease(
            "--ttl", "2s", "--on-lost", 'exec:echo "$DLOCK_KEY $DLOCK_TOKEN" >helper; echo >gate',
            "--", "sh", "-c", 'echo "$DLOCK_KEY $DLOCK_TOKEN" >job; mkfifo gate; read go <gate; '
            "exit 5", faults="lost_after=0")
        run.end(123)
        self.assertRegex(read("job"), r"\Ak [0-9]+\n\Z")
        self.assertEqual(read("job"), read("helper"))

    def test_exec_without_end(self):
        """--on-lost exec: a command that does not end is killed after --ttl."""
        os.mkfifo("gate")
        run = self.start_lease(
            "--ttl", "2s", "--on-lost",
            'exec:trap "" TERM HUP; echo $$ >helper; echo >gate; sleep 600',
            "--", "sh", "-c", "read go <gate; exit 5", faults="lost_after=0")
        run.end(123)
        self.assertFalse(alive(int(read("helper"))))

    def test_exec_delays_no_kill(self):
        """--on-lost exec: a command that does not end cannot delay the kill of the job."""
        run = self.start_lease(
            "--ttl", "12s", "-k", "300ms",
            "--on-lost", 'exec:trap "" TERM; echo $$ >helper; sleep 600', "--",
            "sh", "-c", 'trap "" TERM; echo $$; while :; do sleep 1; done', faults="lost_after=0")
        run.event("lost")
        run.until("the helper", lambda: read("helper").endswith("\n"))
        run.send(TERM).end(123)
        for pid in run.out, read("helper"):
            self.assertFalse(alive(int(pid)))

    def test_on_lost_signal(self):
        """The job gets it, and goes on: 123."""
        run = self.start_lease("--ttl", "2s", "--on-lost", "signal:USR1", "--", "sh", "-c", """
            trap "echo usr1; got=yes" USR1
            until [ "$got" ]; do sleep 0.02; done; sleep 0.1; exit 5""", faults="lost_after=0")
        run.end(123)
        self.assertEqual("usr1\n", run.out)

    def test_renewals_fail(self):
        """Reported once, and again when they work."""
        run = self.start_lease("--ttl", "2s", "--", "sleep", "60", faults="renew_fails_after=1")
        run.end(123)
        self.assertRegex(run.told(), r"\Aacquired renewed renew_failed jeopardy"
                         r"( renew_failed| term| lost)* job_dead exit\Z")
        self.assertRegex(run.told().replace(" renew_failed", ""),
                         r"\Aacquired renewed jeopardy (term lost|lost term) job_dead exit\Z")
        self.assertEqual(1, run.err.count("cannot renew"))

    def test_release_fails(self):
        """Or hangs: warning, event, the command's status, in a bounded time."""
        run = self.start_lease("--ttl", "3s", "--", "sh", "-c", "exit 5", faults="hang_release=1")
        run.end(5)
        self.assertEqual("acquired job_dead not_released exit", run.told())
        self.assertRegex(run.err, r"\Adlock: k: not released")
        self.lease("--ttl", "3s", "--", "sh", "-c", "exit 5", wanted=5, faults="lose=release")

    def test_no_effect(self):
        """Of a lost reply and of a slow store."""
        for faults in "lose=renew", "drip=100ms", "grant_after=300ms":
            with self.subTest(faults):
                run = self.start_lease("--ttl", "3s", "--", "sh", "-c", "read go; exit 5",
                                       faults=faults, stdin=PIPE)
                run.event("renewed")
                run.go().end(5)


class Killed(harness.Case):
    """dlock, with its guard or without; and the control groups of jobs."""

    def test_both(self):
        """The command dies with them."""
        run = self.start_lease("--", "sh", "-c", "echo $$; exec sleep 60")
        run.prints("\n")
        kill(run.guard, run.pid)
        run.end(-9)
        within("the end of the command", lambda: not alive(int(run.out)))

    def use_a_cgroup(self):
        """The control groups of the job of a run that goes on, and that run."""
        mounts = [line.split()[1] for line in read("/proc/mounts").splitlines()
                  if " cgroup2 " in line]
        own = re.search("(?m)^0::(.*)$", read("/proc/self/cgroup"))
        self.groups = mounts[0] + own[1].rstrip("/") if mounts and own else ""
        if not os.access(self.groups + "/cgroup.procs", os.W_OK):
            self.skipTest("no cgroup v2 that may be written")
        other = self.start_lease("--", "sh", "-c", "echo up; exec sleep 60")
        other.prints("up")
        if not os.path.exists(self.group_of(other)):
            self.skipTest("dlock makes no cgroup here")
        return self.group_of(other), other

    def group_of(self, run):
        return f"{self.groups}/dlock-{run.guard}-{os.stat('/proc/self/ns/pid').st_ino}"

    def test_empty_cgroup(self):
        """That of the job is removed by the next run, those in use stay."""
        in_use, other = self.use_a_cgroup()
        run = self.start_key("--", "sh", "-c", "echo $$; exec sleep 60")
        run.prints("\n")
        guard, empty = run.guard, self.group_of(run)
        self.assertTrue(os.path.exists(empty))
        kill(guard, run.pid)
        run.end(-9)
        # reaped, too: a guard that is a zombie counts as one that lives
        within("guard and job are gone", lambda: not any(
            os.path.exists(f"/proc/{pid}") for pid in (guard, int(run.out))))
        self.key("--", "true")
        self.assertFalse(os.path.exists(empty))
        self.assertTrue(os.path.exists(in_use))
        other.send(TERM).end()

    def test_cgroups_of_other_namespaces(self):
        """Empty ones of other PID namespaces, as of killed containers, are removed, however
        many."""
        in_use, other = self.use_a_cgroup()
        space, mark = in_use.rpartition("-")[2], f"-{os.getpid()}"
        dead = [f"{self.groups}/dlock-{n}{mark}" for n in range(101, 201)]
        foreign = f"{self.groups}/dlock-of{mark}"  # not dlock's
        living = []  # as of guards that live
        made = []
        self.addCleanup(lambda: [os.rmdir(path) for path in made if os.path.exists(path)])
        for _ in range(100):
            sleeper = subprocess.Popen(["sleep", "600"], env=self.env)
            self.addCleanup(sleeper.wait)
            self.addCleanup(sleeper.kill)
            living.append(f"{self.groups}/dlock-{sleeper.pid}-{space}")
        for path in [*dead, foreign, *living]:
            os.mkdir(path)
            made.append(path)
        self.key("--", "true")
        left = [path for path in [*dead, foreign, *living, in_use] if os.path.exists(path)]
        self.assertEqual([foreign, *living, in_use], left)
        other.send(TERM).end()

    def test_guard_before_the_job(self):
        """A guard that is killed before the job starts leaves no cgroup."""
        holder = self.start_key("--", "sleep", "60")
        holder.event("acquired")
        caught = 0
        for _ in range(50):  # the guard removes its cgroup after 50 ms
            run = subprocess.Popen([DLOCK, "run", "--key", "k", "--", "true"], env=self.env,
                                   stderr=subprocess.DEVNULL)
            guard, = within("the guard", lambda: children(run.pid) or run.poll() is not None)
            made, until = [], time.monotonic() + 0.03
            while not made and time.monotonic() < until:
                time.sleep(0.001)
                made = glob.glob(f"/sys/fs/cgroup/**/dlock-{guard}-*")
                made += glob.glob(f"/sys/fs/cgroup/dlock-{guard}-*")
            kill(guard)
            self.assertEqual(69, run.wait(20))
            self.assertEqual([], [path for path in made if os.path.exists(path)])
            caught += bool(made)
            if caught == 3:
                return
        if not caught:
            self.skipTest("no cgroup of version 2 to write to here")


harness.main()
