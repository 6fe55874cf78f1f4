# SPDX-License-Identifier: Apache-2.0
"""`dlock run` on a terminal. A command that Ctrl-Z shall stop must not be in vfork then: a shell
that waits for its vfork cannot stop, with or without dlock."""
import os, re, signal
import harness
from harness import DLOCK, FAKE, read, state_of, tool, within
from pseudoterminal import Terminal

LEASE = ["run", "-b", "fake:", "--key", "k"]
SIGNAL_JOB, TREE = tool("signal_job"), tool("resisting_tree")
INT, QUIT, SUSPEND = "\x03", "\x1c", "\x1a"
BASH = ["--norc", "--noprofile", "--noediting", "-i"]
# A command that says its pid, and that it has begun, in words that no line which is typed has.
BEGUN = "echo $$ >pid; echo beg''un; "


def state(name):
    """Of the process whose pid is in this file."""
    return state_of(read(name).strip() or 0) or "-"


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.env["D"] = " ".join([FAKE, *LEASE])  # for the shells: $D -- COMMAND

    def bash(self):
        """An interactive shell, at its prompt."""
        return Terminal(self, *BASH, dlock="bash", env={"PS1": "rdy> "}).shows("rdy>")

    def leave(self, shell, status=0):
        """From its next prompt, with the status of its last command."""
        shell.shows("rdy>").type("exit\n").end(status)

    def script(self, text, *words, shell="sh"):
        return Terminal(self, "-c", text, shell, *words, dlock=shell)

    def leased(self, *words):
        return Terminal(self, *LEASE, *words, dlock=FAKE)

    def stops(self, shell):
        shell.type(SUSPEND).shows("Stopped").shows("rdy>")
        self.is_stopped()

    def is_stopped(self, name="pid"):
        within(f"{name} is stopped", lambda: state(name) == "T")

    def is_gone(self):
        within("the command is gone", lambda: read("pid") and state("pid") in "-ZX")

    def let_kill_after_pass(self):
        """100 ms, as another dlock measures them that begins now."""
        other = self.start_lease("-k", "100ms", "--", "sh", "-c",
                                 'trap "" TERM; echo up; exec sleep 600')
        other.prints("up")
        other.send(signal.SIGTERM).end(-9)


class Signals(Case):
    def test_loop_of_an_interactive_shell(self):
        """It ends on Ctrl-C."""
        shell = self.bash().type("for i in 1 2 3; do $D -- "
                                 "sh -c 'echo x >>log; echo beg''un; exec sleep 60'; done\n")
        self.leave(shell.shows("begun").type(INT), 130)
        self.assertEqual("x\n", read("log"))

    def test_loop_of_a_script(self):
        """It ends on Ctrl-C, and the script with it."""
        loop = self.script('for i in 1 2 3; do $D -- sh -c "echo begun; exec sleep 60"; done; '
                           'echo later', shell="bash").shows("begun").type(INT)
        loop.end(-2)
        loop.not_shown("begun")
        loop.not_shown("later")

    def test_loop_around_a_wait(self):
        """It ends on Ctrl-C, and its place in the queue with it."""
        self.hold_by_input()
        loop = self.script('for i in 1 2 3; do "$DLOCK" run --key k --status ev -- touch ran; done;'
                           ' echo later', shell="bash").shows("waiting")
        loop.type(INT).end(-2)
        loop.not_shown("later")
        self.until_waiting(0)
        self.assertIn('"waiting"', read("ev"))
        self.not_run()

    def test_keys(self):
        """They reach the command once. None starts --kill-after, a second one does not escalate,
        and Ctrl-Z stops nothing where it is handled."""
        run = self.leased("-k", "100ms", "--", SIGNAL_JOB, "print").shows("up\r\n")
        for key, number in (INT, 2), (INT, 2), (QUIT, 3), (INT, 2), (SUSPEND, 20):
            run.type(key).shows(f"got {number}\r\n")
            self.let_kill_after_pass()  # the same signal once more, sooner, would never escalate
        run.send(signal.SIGTERM).shows("got 15").end(0)
        self.assertEqual("up 2 2 3 2 20 15", " ".join(run.out.replace("got ", "").split()))
        self.assertNotIn("kill", run.told())

    def test_term(self):
        """It is forwarded once, then comes KILL after --kill-after."""
        run = self.leased("-k", "300ms", "--", "sh", "-c",
                         'trap "echo x >>got" TERM; echo up; while :; do sleep 0.05; done')
        run.shows("up").send(signal.SIGTERM).end(-9)
        self.assertEqual("x\n", read("got"))

    def test_hangup_of_a_process(self):
        """It is only forwarded."""
        run = self.leased("-k", "100ms", "--", SIGNAL_JOB, "print").shows("up")
        run.send(signal.SIGHUP).shows("got 1\r\n")
        self.let_kill_after_pass()
        run.send(signal.SIGTERM).shows("got 15").end(0)
        self.assertNotIn("kill", run.told())


class Stops(Case):
    def test_fg(self):
        """Ctrl-Z stops dlock with the command; fg continues both."""
        shell = self.bash().type(f"$D -- sh -c '{BEGUN} read -r line; echo got''$line; exit 5'\n")
        self.stops(shell.shows("begun"))
        self.leave(shell.type("fg\n").type("word\n").shows("gotword"), 5)

    def test_bg(self):
        """It runs on in the background."""
        os.mkfifo("gate")
        shell = self.bash().type(f"$D -- sh -c '{BEGUN} read -r x <gate; echo x >done'\n")
        self.stops(shell.shows("begun"))
        shell.type("bg\n").shows("rdy>").type("echo >gate; wait\n")
        self.leave(shell)
        self.assertEqual("x\n", read("done"))

    def test_deadline(self):
        """The command is killed while stopped; 123 after fg."""
        for _ in range(5):
            shell = self.bash().type(f"$D --ttl 4s -k 200ms -- sh -c '{BEGUN} exec sleep 60'\n")
            shell.until("begun", lambda: "begun" in shell.out or "lost" in shell.out)
            shell.type(SUSPEND)
            shell.until("stopped", lambda: "Stopped" in shell.out or "lost" in shell.out)
            if "lost" not in shell.out:
                break
            shell.clean()  # the machine did not renew for a ttl, before there was a stop
        shell.shows("Stopped").shows("rdy>")
        self.is_gone()
        self.leave(shell.type("fg\n").shows("lost"), 123)

    def test_renewed(self):
        """The lease, where Ctrl-Z stops nothing, and where, with --foreground=no, it stops the
        command only; CONT continues this. At the default ttl."""
        one = self.bash().type("$D --status ev -- sh -c 'trap \"\" TSTP; echo beg''un; "
                               "exec sleep 600'\n").shows("begun").type(SUSPEND)
        two = self.leased("--foreground=no", "--", "sh", "-c",
                         "echo $$ >pid; echo up; exec sleep 600").shows("up").type(SUSPEND)
        self.is_stopped()
        before = two.renewals()
        two.until("a renewal", lambda: two.renewals() > before)
        within("a renewal", lambda: "renewed" in read("ev"))
        one.not_shown("Stopped")
        self.leave(one.type(INT), 130)
        self.assertEqual("T", state("pid"))
        two.send(signal.SIGCONT)
        within("the command goes on", lambda: state("pid") != "T")
        two.type(INT).end(-2)

    def test_stop_of_its_own(self):
        """dlock stops with it; fg continues."""
        shell = self.bash().type("$D -- sh -c 'echo $$ >pid; kill -STOP $$; echo con''tinued; "
                                 "exit 5'\n").shows("Stopped").shows("rdy>")
        self.is_stopped()
        self.leave(shell.type("fg\n").shows("continued"), 5)

    def test_leader_of_the_session(self):
        """Ctrl-Z does not leave the command stopped for ever."""
        run = self.leased("--", "sh", "-c", "echo up; read -r x; echo got$x; exit 5").shows("up")
        run.type(SUSPEND).type("word\n").shows("gotword").end(5)

    def test_interactive_shell_as_the_command(self):
        shell = self.bash().type(f"PS1='in''ner> ' $D -- bash {' '.join(BASH)}\n").shows("inner>")
        shell.type("sh -c 'echo sleep''ing; exec sleep 60'\n").shows("sleeping").type(SUSPEND)
        shell.shows("Stopped").shows("inner>")
        shell.type("kill -9 %1; while jobs %1 >/dev/null 2>&1; do wait; done; echo wai''ted\n")
        shell.shows("waited").shows("inner>").type(INT).shows("inner>").type("exit 4\n")
        self.leave(shell, 4)


class Reads(Case):
    def test_foreground(self):
        """The command reads from the terminal, also where its input is a pipe, and writes to
        one."""
        shell = self.bash().type("$D -- sh -c 'echo re''ady; read -r x; echo got''$x'\n")
        shell.shows("ready").type("one\n").shows("gotone").shows("rdy>")
        shell.type("echo pi''ped | $D -- sh -c 'read -r a; echo re''ady >/dev/tty; "
                   "read -r b </dev/tty; echo got''$a$b' | sed 's/^/se''d/'\n")
        self.leave(shell.shows("ready").type("two\n").shows("sedgotpipedtwo"))

    def test_background(self):
        """A read of the terminal stops it, fg lets it read."""
        shell = self.bash().type("$D -- sh -c 'echo $$ >pid; read -r x; echo got''$x' & "
                                 "echo $! >outer\n").shows("rdy>")
        self.is_stopped()
        self.is_stopped("outer")
        for _ in range(5):
            seen = len(shell.out)
            shell.type("fg\n").type("word\n")
            shell.until("somebody reads the word",
                        lambda: re.search("gotword|word: command not", shell.out[seen:]))
            if "gotword" in shell.out[seen:]:
                break
            # dlock has stopped once more, since its guard was late to tell it that the command goes
            # on (Supervisor::stop, 3): the next fg.
            self.is_stopped("outer")
        self.leave(shell.shows("gotword"))

    def test_background_without_need(self):
        """Ctrl-C does not reach it."""
        os.mkfifo("gate")
        shell = self.bash().type("$D -- sh -c 'echo x >up; read -r x <gate; echo x >done' &\n")
        shell.shows("rdy>")
        within("it is up", lambda: read("up"))
        self.leave(shell.type(INT).shows("rdy>").type("echo >gate; wait $!\n"))
        self.assertEqual("x\n", read("done"))


class HangUp(Case):
    def test_nothing_is_left(self):
        """The command gets HUP."""
        job = ["sh", "-c", 'trap "echo x >hup; exit" HUP; echo up; while :; do sleep 0.05; done']
        for run in (lambda: self.leased("--", *job),
                    lambda: self.script('"$@"; exit $?', FAKE, *LEASE, "--", *job, shell="bash")):
            run = run().shows("up")
            run.hang_up()
            run.nothing_left()
            self.assertEqual("x\n", read("hup"))
            os.unlink("hup")

    def test_tree_that_resists(self):
        """Under an interactive shell: dead after --kill-after."""
        os.mkfifo("tree")
        with open(os.open("tree", os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as tree:
            shell = self.bash().type(f"$D -k 200ms -- {TREE} $PWD/tree\n")
            within("the tree", lambda: tree.read(100) == b"complete 12\n")
            shell.hang_up()
            shell.nothing_left()
            self.assertEqual("", harness.rest(tree))  # no member of it has it open

    def test_hangup_of_a_process_before(self):
        """It does not hide the terminal's: what survives is ended. A signal is queued once, with
        the sender of the first: while dlock is stopped, the kernel's HUP merges into the other."""
        shell = self.script(
            'sh -c \'echo $$ >dlock; exec $D -k 200ms -- "$@"\' sh "$@"; true',
            "sh", "-c", 'trap : HUP; echo up; while :; do sleep 0.05; done').shows("up")
        os.kill(int(read("dlock")), signal.SIGSTOP)
        self.is_stopped("dlock")
        os.kill(int(read("dlock")), signal.SIGHUP)
        shell.hang_up()
        shell.nothing_left()

    def test_stopped_job(self):
        """Its shell was killed: nothing is left."""
        shell = self.bash().type(f"$D -k 200ms -- sh -c '{BEGUN} exec sleep 60'\n").shows("begun")
        self.stops(shell)
        shell.send(signal.SIGKILL).end(-9)


class Shown(Case):
    def test_raw_mode(self):
        """It is undone when the command was killed."""
        run = self.script('"$DLOCK" run --key k -k 100ms -- sh -c "stty raw -echo; echo up; '
                          'exec sleep 60"; echo status=$?; stty -a').shows("up")
        self.dlock("release", "--key", "k", "--force", "--yes")
        run.shows("status=123").shows(" icanon").end(0)
        run.not_shown("-icanon")

    def test_line_of_a_wait(self):
        """It is drawn again and again, and removed at the end; without a cursor it is said
        once."""
        held = self.hold_by_input()
        dumb, run = [Terminal(self, "run", "--key", "k", "--", "echo", "granted",
                              env={"TERM": term}).shows("waiting") for term in ("dumb", "xterm")]
        run.shows("\rdlock: k").shows("\rdlock: k")
        held.process.stdin.close()
        dumb.end(0)
        self.assertEqual(1, dumb.out.count("waiting"))
        self.assertNotIn("\x1b", dumb.out)
        run.shows("\r\x1b[K").shows("granted").end(0)
        run.not_shown("waiting")

    def test_line_of_a_wait_in_80_columns(self):
        """It loses whole words, and never the name of the holder."""
        self.env["TERM"] = "xterm"
        held = self.hold_by_input("k", "--reason", "the report of november, which ana wants to see")
        run = Terminal(self, "run", "--key", "k", "-w", "1h", "--", "echo", "granted", columns=80)
        line = re.search(r"\r(dlock: [^\r\x1b]*)\x1b\[K", run.shows("\x1b[K").out)[1]
        self.assertRegex(line, rf"\Adlock: k is held by [^ ]*:{held.pid}\b.*\.\.\.; "
                         r"waiting \(position 1\)\Z")
        self.assertLess(len(line), 80)
        held.process.stdin.close()
        run.shows("granted").end(0)

    def test_line_of_a_revoke(self):
        """release --revoke --wait is a wait, too: who was asked, then who still holds the lock."""
        self.env["TERM"] = "xterm"
        held = self.hold_by_stubborn_job("k", "-k", "1h")
        run = Terminal(self, "release", "--key", "k", "--revoke", "--wait", "1h")
        run.shows(f":{held.pid} (").shows("to stop; it hears of it at once\r\n")
        for _ in range(2):
            run.shows("\rdlock: ").shows(f":{held.pid} (")
            run.shows("was asked to stop, and still holds k after ").shows("; waiting up to 1h")
            run.shows("\x1b[K")
        held.send(signal.SIGKILL).end(-9)
        run.shows("\r\x1b[K").end(0)
        run.not_shown("dlock")


harness.main()
