# SPDX-License-Identifier: Apache-2.0
"""dlock as its users see it, for all tests of this folder: a case has a directory, an environment
and a store of its own, starts dlock without a shell, and waits for events, with a bound. At its end
no process of it is left. When it fails it says what dlock said, and how to repeat it."""
import json, os, re, select, shlex, shutil, signal, subprocess
import sys, tempfile, time, traceback, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TEST = os.path.abspath(sys.argv[0])
sys.path.insert(0, ROOT + "/tests/support")
from ports import free_port  # noqa: E402, F401
from store import BOUND, Store, die_with_parent, missing, within  # noqa: E402, F401

DLOCK = os.environ.get("DLOCK", "")
# What a case gets is the environment of the test without what would change dlock's behaviour.
clean = {name: value for name, value in os.environ.items() if name == "DLOCK_TEST_MUTANT" or
         not name.startswith(("DLOCK_", "XDG_"))}
BUSY, UNAVAILABLE = 75, 69


def tool(name, variable=None):
    """A program beside DLOCK in the build, or where the variable says (default: of its name)."""
    return os.path.abspath(os.environ.get(variable or name.upper()) or
                           f"{os.path.dirname(DLOCK)}/../tests/support/{name}")


FAKE = tool("dlock_fake", "DLOCK_FAKE")
os.environ["STORE_PROGRAM"] = tool("store", "STORE_PROGRAM")
SANITIZED = None


def sanitized():
    """Whether dlock has AddressSanitizer, which needs descriptors and memory of its own."""
    global SANITIZED
    if SANITIZED is None:
        with open(DLOCK, "rb") as program:
            SANITIZED = b"__asan_init" in program.read()
    return SANITIZED


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def children(pid):
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def state_of(pid):
    """The letter of ps(1), or nothing."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2][1:2]


def alive(pid):
    return state_of(pid) not in ("", "Z", "X")


def read(path):
    """What is in a file; of none, and of a process that is gone, nothing."""
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def write(path, text="", mode=0o600):
    with open(path, "w", errors="surrogateescape") as file:
        file.write(text)
    os.chmod(path, mode)


def kill(*pids, sig=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


def marked(mark):
    """The processes that have a variable in their environment that begins so."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                if any(one.startswith(mark.encode()) for one in environment.read().split(b"\0")):
                    yield int(pid)
        except OSError:
            pass


def rest(pipe, bound=BOUND):
    """All that comes from a pipe until it ends."""
    text, until = b"", time.monotonic() + bound
    while True:
        if not select.select([pipe], [], [], max(0, until - time.monotonic()))[0]:
            raise AssertionError(f"does not end within {bound} s; so far {text!r}")
        part = os.read(pipe.fileno() if hasattr(pipe, "fileno") else pipe, 65536)
        if not part:
            return text.decode(errors="surrogateescape")
        text += part


def full_pipe():
    """Its two ends. A write to it waits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:  # no wait: it ends when the pipe is full
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


traceable = unittest.skipIf(shutil.which("strace") is None, "strace is not installed")
started = {}


def fixture(kind, *options):
    """One for all tests of a program."""
    if kind not in started:
        started[kind] = Store(kind, *options)
    return started[kind]


def Redis(*config):
    """One with these lines of configuration; restarted, it has forgotten everything."""
    return Store("redis", "--items", "/0?restart_grace=0", "--config", "\n".join(config))


def said(words, status, out, err, env=None):
    """For people: a command and what came of it."""
    own = [f"{name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    line = " ".join([*own, *map(shlex.quote, map(str, words))])
    if len(line) > 1500:
        line = line[:1500] + "..."
    text = f"$ {line}\n  status: {status}\n"
    for name, value in (("stdout", out), ("stderr", err)):
        if value:
            text += f"  {name}: " + value[:3000].rstrip("\n").replace("\n", "\n          ") + "\n"
    return text.encode(errors="backslashreplace").decode()


class Ended:
    """What a program printed, and its status; -N is signal N."""

    def __init__(self, words, env, status, out, err):
        self.words, self.env, self.status, self.out, self.err = words, env, status, out, err

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return said(self.words, self.status, self.out, self.err, self.env)


class Run:
    """A program of `test` in the background, `before` it other words; what it says in `out` and
    `err`. Of `dlock run` also its events. `pid` is its own, also behind unshare -f."""
    number = 0

    def __init__(self, test, *words, before=(), dlock=None, env=None, **more):
        Run.number += 1
        self.test, self.name = test, f"{test.dir}/.run{Run.number}"
        if words[0] == "run":
            words = ("run", "--status", self.name + ".events", *words[1:])
        self.words, self.env = [*before, dlock or DLOCK, *words], env
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("cwd", test.dir)
        with open(self.name + ".err", "w") as err, open(self.name + ".out", "w") as out:
            self.process = subprocess.Popen(self.words, env={**test.env, **(env or {})},
                                            **{"stdout": out, "stderr": err, **more})
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid)
        test.said.append(self)
        test.addCleanup(self.clean)

    def clean(self):
        for pid in [*children(self.pid), self.pid]:
            kill(*children(pid), pid)
        self.process.wait()
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pidfd = -1

    @property
    def err(self):
        return read(self.name + ".err")

    @property
    def out(self):
        return read(self.name + ".out")

    @property
    def guard(self):  # dlock's only child
        return self.until("a guard", lambda: children(self.pid))[0]

    def events(self):
        return [json.loads(line) for line in read(self.name + ".events").split("\n")[:-1]]

    def told(self):
        """The names of all events, in one line."""
        return " ".join(event["event"] for event in self.events())

    def event(self, name):
        return self.until(f"event {name}",
                          lambda: next((e for e in self.events() if e["event"] == name), None))

    def renewals(self):
        return self.told().split().count("renewed")

    def until(self, what, question):
        try:
            return within(what, question)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self}") from None

    def says(self, text):
        return self.until(f"stderr has {text!r}", lambda: text in self.err)

    def prints(self, text):
        return self.until(f"stdout has {text!r}", lambda: text in self.out)

    def send(self, sig):
        self.process.send_signal(sig)
        return self

    def go(self):
        """Its job, which reads its input, goes on."""
        self.process.stdin.write(b"\n")
        self.process.stdin.close()
        return self

    def ends_within(self, seconds):
        return bool(select.select([self.pidfd], [], [], seconds)[0])

    def end(self, *wanted, seconds=BOUND):
        """Its status, which is one of `wanted`, if they are given; -N is signal N."""
        if not self.ends_within(seconds):
            raise AssertionError(f"goes on after {seconds} s\n{self}")
        status = self.process.wait()
        if wanted:
            self.test.assertIn(status, wanted, f"status\n{self}")
        return status

    def __str__(self):
        status = self.process.poll()
        text = said(self.words, "runs" if status is None else status, self.out, self.err, self.env)
        events = self.told()
        return text + (f"  events: {events}\n" if events else "")


class Case(unittest.TestCase):
    """Each test has its own directory, `self.dir`, in which it and its programs run, with an empty
    one for the locks, `self.locks`, which is the backend of its environment, `self.env`."""
    makes_locks = True
    bound = BOUND  # s, of a program, where nothing is promised

    def setUp(self):
        self.settle(tempfile.mkdtemp(prefix="dlock."))

    def settle(self, directory):
        self.dir = os.path.realpath(directory)
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(os.chdir, "/")
        os.chdir(self.dir)
        self.addCleanup(self.end_all)
        self.said = []
        self.locks = self.dir + "/locks"
        if self.makes_locks:
            os.mkdir(self.locks, 0o700)
        self.file = "file:" + self.locks
        self.env = {**clean, "HOME": self.dir, "DLOCK": DLOCK, "DLOCK_BACKEND": self.file,
                    "MARK_OF_TEST": self.dir + "/"}

    def end_all(self):
        """Ends the processes that the case has left: all that have its mark, or that of a part of
        it (side_by_side)."""
        kill(*marked(f"MARK_OF_TEST={self.dir}/"))

    # Programs

    def program(self, *words, wanted=0, env=None, bound=None, **more):
        """A program to its end. `wanted` is its status, some of them, or None for any."""
        more.setdefault("cwd", self.dir)
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        if "stdout" not in more:
            more["stdout"] = subprocess.PIPE
        more.setdefault("stderr", subprocess.PIPE)
        bound = bound or self.bound
        try:
            done = subprocess.run(words, timeout=bound, encoding="utf-8", errors="surrogateescape",
                                  env={**self.env, **(env or {})}, check=False, **more)
        except subprocess.TimeoutExpired as late:
            text = [(part or b"").decode(errors="replace") for part in (late.stdout, late.stderr)]
            raise AssertionError(f"goes on after {bound} s\n" +
                                 said(words, "killed", *text, env)) from None
        ended = Ended(words, env, done.returncode, done.stdout or "", done.stderr or "")
        self.said.append(ended)
        if wanted is not None:
            self.assertIn(ended.status, (wanted,) if isinstance(wanted, int) else wanted,
                          f"status\n{ended}")
        return ended

    def dlock(self, *words, before=(), dlock=None, **more):
        """`dlock VERB ARGUMENT...` to its end."""
        return self.program(*before, dlock or DLOCK, *words, **more)

    def tell(self, *words, wanted=(0,), **more):
        """The same: its standard output and error."""
        done = self.dlock(*words, wanted=wanted, **more)
        return done.out + done.err

    def shell(self, script, *words, **more):
        """A script for bash, with these arguments; $DLOCK is dlock."""
        return self.program("bash", "-c", script, "bash", *words, **more)

    def refused(self, status, text, *words, **more):
        """dlock prints nothing but one line on stderr, with `text`, and ends with `status`."""
        done = self.dlock(*words, wanted=status, **more)
        self.assertEqual("", done.out, f"stdout\n{done}")
        self.assertRegex(done.err, r"\Adlock: [^\n]*\n\Z", f"not one line\n{done}")
        self.assertIn(text, done.err, str(done))
        return done

    def start(self, *words, **more):
        """dlock in the background."""
        return Run(self, *words, **more)

    def run_dlock(self, *words, **more):
        return self.start("run", *words, **more)

    def key(self, *words, **more):
        """`dlock run` of the key k, to its end."""
        return self.dlock("run", "--key", "k", *words, **more)

    def lease(self, *words, faults="", run=None, **more):
        """The same on the backend in memory, which has leases, with these faults."""
        return (run or self.dlock)("run", "-b", f"fake:?{faults}", "--key", "k", *words, dlock=FAKE,
                                   **more)

    def start_key(self, *words, **more):
        return self.start("run", "--key", "k", *words, **more)

    def start_lease(self, *words, **more):
        return self.lease(*words, run=self.start, **more)

    # What dlock shows

    def acquired(self, *words, **more):
        """The handle that `dlock acquire` prints."""
        return self.dlock("acquire", *words, **more).out.strip()

    def inspected(self, *words, wanted=None, **more):
        return self.dlock("inspect", "-J", *words, wanted=wanted, **more).json

    def holder(self, key="k"):
        return within(f"{key} has a holder", lambda: self.inspected(key)["holders"])[0]

    def known(self, key):
        """What `inspect --check` says of a key. Masters of a busy machine may not answer in time:
        then they are asked again."""
        return within(f"the state of {key} is known", lambda: next(
            (done for done in [self.dlock("inspect", "--check", key, wanted=None)]
             if done.status != UNAVAILABLE), None))

    def is_held(self, key):
        done = self.known(key)
        self.assertEqual(BUSY, done.status, f"{key} is not held\n{done}")

    def is_free(self, key):
        done = self.known(key)
        self.assertEqual(0, done.status, f"{key} is not free\n{done}")

    def until_free(self, key):
        within(f"{key} is free", lambda: self.known(key).status == 0)

    def until_held(self, key):
        within(f"{key} is held", lambda: self.known(key).status == BUSY)

    def until_waiting(self, n, key="k"):
        within(f"{n} wait for {key}", lambda: len(self.inspected(key)["waiters"]) == n)

    def listed(self, wanted, *words):
        self.assertEqual(wanted, self.dlock("inspect", "--no-heading", *words).out)

    def built_with(self, *backends):
        """Whether dlock has all of these."""
        version = self.dlock("--version").out
        return all(re.search(rf"^{one}: .*\(default\)", version, re.M) for one in backends)

    def needs_backend(self, *backends):
        if not self.built_with(*backends):
            self.skipTest("built without " + " ".join(backends))

    def assertLine(self, pattern, text, *, times=None):
        """A whole line of `text` is of this pattern."""
        found = re.findall(f"(?m)^(?:{pattern})$", str_of(text))
        if not found or times is not None and len(found) != times:
            self.fail(f"{len(found)} lines, not {times or 'at least 1'}, are {pattern!r} in:\n"
                      f"{text}")

    def assertNoLine(self, pattern, text):
        found = re.search(f"(?m)^(?:{pattern})", str_of(text))
        if found:
            self.fail(f"a line begins with {pattern!r} in:\n{text}")

    # Holders, in the background

    def hold_by_job(self, key="k", *options):
        held = self.start("run", "--key", key, *options, "--", "sleep", "300")
        held.event("acquired")
        held.until("the job", lambda: held.guard and children(held.guard))
        return held

    def hold_by_stubborn_job(self, key="k", *options):
        """One that ignores TERM."""
        held = self.start("run", "--key", key, *options, "--", "sh", "-c",
                          'trap "" TERM; echo up; exec sleep 300')
        held.prints("up")
        return held

    def hold_by_input(self, key="k", *options):
        """`acquire --hold`, whose input does not end before `process.stdin` is closed; its
        `handle`."""
        held = self.start("acquire", "--hold", "--key", key, *options, stdin=subprocess.PIPE)
        self.addCleanup(held.process.stdin.close)
        held.until("a handle", lambda: "\n" in held.out)
        held.handle = held.out.strip()
        return held

    # Several at a time

    def side_by_side(self, rows, question):
        """What question(*row) returns for each row. Each is asked in a process and a directory of
        its own, all at once, since most of their time is a wait for leases. What they share is
        made before."""
        asked, answers = [], []
        for row in rows:
            end, other = os.pipe()
            pid = os.fork()
            if not pid:
                self.answer(row, question, other)
            os.close(other)
            asked.append((row, pid, end))
        for row, pid, end in asked:
            with self.subTest(str(row)):
                try:
                    failed, answer = json.loads(rest(end, 10 * BOUND))
                finally:
                    os.close(end)
                    kill(pid)  # but for a bound that was passed it has ended
                    os.waitpid(pid, 0)
                if failed:
                    self.fail(failed)
                answers.append(answer)
        return answers

    def answer(self, row, question, end):
        failed, answer = "", None
        try:
            self._cleanups = []  # those of the parent are not ours
            self.settle(tempfile.mkdtemp(dir=self.dir))
            try:
                answer = question(*row)
            finally:
                failed = "".join(map(str, self.said[-6:]))
                self.doCleanups()
            failed = ""
        except BaseException as error:
            failed = f"{error}\n{traceback.format_exc(chain=False)}{failed}"
        finally:
            os.write(end, json.dumps([failed[-30000:], answer]).encode())
            os._exit(0)

    # Jobs that judge

    def killed(self, call, n, *words):
        """Whether dlock, its guard or its job was killed before its call number `n` of this kind,
        in any thread."""
        log = self.dir + "/trace"
        trace = ["strace", "-q", "-f", "-o", log, "-e", f"trace={call}", "-e",
                 f"inject={call}:signal=KILL:when={n}"]
        self.program(*trace, DLOCK, *words, wanted=None)
        return "killed by SIGKILL" in read(log)

    def judged(self, then="exec sleep 600", of=""):
        """A job that only one process at a time may be: it leaves `overlap` if another is there.
        `of`: which, if there are several such jobs."""
        return ["sh", "-c",
                f"exec 9>{self.dir}/judge{of}; flock -n 9 || touch {self.dir}/overlap; "
                f"echo $$ >>{self.dir}/ran; {then}"]

    def runs(self):  # how often the judged job was started
        return len(read(self.dir + "/ran").split())

    def forget_runs(self):
        os.path.exists(self.dir + "/ran") and os.unlink(self.dir + "/ran")

    def alone(self):
        self.assertFalse(os.path.exists(self.dir + "/overlap"), "two jobs at a time")

    def not_run(self):
        """No command left `ran`."""
        self.assertFalse(os.path.exists(self.dir + "/ran"), "the command was run")


def str_of(text):
    return text.out if isinstance(text, Ended) else text


def repeat(case):
    """The command that runs this case alone."""
    names = ["DLOCK", "DLOCK_FAKE", "DLOCK_TEST_SEED", "DLOCK_TEST_MUTANT", "DLOCK_TEST_TICKS",
             "DLOCK_TEST_MYSQL", "STORE", "BOUND"]
    words = [f"{name}={shlex.quote(os.environ[name])}" for name in names if os.environ.get(name)]
    return " ".join([*words, "python3", shlex.quote(os.path.relpath(TEST, ROOT)),
                     f"{type(case).__name__}.{case._testMethodName}"])


class Result(unittest.TextTestResult):
    """Says of what failed what its programs said, and how to repeat it."""

    def _exc_info_to_string(self, error, test):
        case = getattr(test, "test_case", test)
        text = super()._exc_info_to_string(error, test)
        text += f"NOT MET: {str(error[1]).strip().splitlines()[0] if str(error[1]) else error[0]}\n"
        programs = getattr(case, "said", [])[-6:]
        if programs:
            text += "the last programs of this case, and what they said:\n"
            text += "".join(map(str, programs))
        if isinstance(case, Case):
            text += f"repeat this case, in {ROOT}:\n  {repeat(case)}\n"
        return text


def main():
    """Runs the tests of the program, without a terminal, or those that its arguments name. Ends
    with 77 if all was skipped."""
    if not DLOCK.startswith("/"):
        sys.exit("DLOCK is not the whole path of a dlock: tests/README.md")
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        pass
    else:
        os.execvp("setsid", ["setsid", "-w", sys.executable, TEST, *sys.argv[1:]])
    for number in signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD:
        signal.signal(number, signal.SIG_DFL)  # what starts in the background may ignore them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2)
    result = unittest.main(module="__main__", exit=False, testRunner=runner).result
    for case, why in result.skipped:
        print(f"skipped: {os.path.basename(TEST)[:-3]}.{case._testMethodName}: {why}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
