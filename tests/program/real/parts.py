# SPDX-License-Identifier: Apache-2.0
"""dlock and its stores for the tests beside this file, which run them in surroundings that hurt.
Every wait is for an event, with a bound. CTest gives the programs in the environment."""
import atexit, json, os, shutil, signal, socket, subprocess, sys, tempfile, time, unittest

DLOCK = os.environ.get("DLOCK", "")
BOUND = float(os.environ.get("BOUND", 60))  # s: of what is no promise
clean = {k: v for k,
         v in os.environ.items() if not k.startswith("DLOCK_") or k == "DLOCK_TEST_MUTANT"}


def within(what, question, seconds=BOUND):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = question()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"not within {seconds} s: {what}")


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


traceable = unittest.skipIf(shutil.which("strace") is None, "strace is not installed")


def missing(what):
    if os.environ.get("CI") == "true":
        raise AssertionError(what + " is not installed")
    raise unittest.SkipTest(what + " is not installed")


class Fixture:
    """A server of tests/support, in $KIND_FIXTURE: `url` and `pid`, the server's own."""

    def __init__(self, kind):
        program = os.environ.get(kind.upper() + "_FIXTURE")
        if not program:
            raise unittest.SkipTest("built without " + kind)
        self.kind, self.directory = kind, tempfile.mkdtemp(prefix="dlock.", dir="/dev/shm")
        if kind == "mariadb":
            self.process = None
            shutil.rmtree(self.directory)
            self.stop = lambda: subprocess.run([program, "stop", self.directory], check=False)
            subprocess.run([program, "start", self.directory], check=True)
            if not os.path.exists(self.directory + "/ready"):
                missing("mariadbd")
            self.url = f"mysql://root@127.0.0.1:{read(self.directory + '/port').strip()}/"
            owner = int(read(self.directory + "/watcher"))
        else:
            self.process = subprocess.Popen([program, self.directory + "/url"],
                                            stderr=subprocess.PIPE, text=True)
            within("the server answers",
                   lambda: read(self.directory + "/url") or self.process.poll() is not None)
            if self.process.poll() is not None:
                missing(self.process.stderr.read().strip() or kind)
            self.url, owner = read(self.directory + "/url").strip(), self.process.pid
        self.pid = children(owner)[0]
        atexit.register(self.end)

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)

    def end(self):
        if self.process is None:
            self.thaw()
            self.stop()
        elif self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def fresh(self, name):  # the URL of a part of the store that was never used
        if self.kind == "redis":
            return f"{self.url}/0?restart_grace=0&prefix={name}:"
        if self.kind == "zookeeper":
            return f"{self.url}/{name}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url + name

    def sql(self, statement):
        client = ["mariadb", "--no-defaults", "-uroot", "-S", self.directory + "/s", "-N", "-B",
                  "-e", statement]
        return subprocess.run(client, check=True, capture_output=True, text=True,
                              timeout=BOUND).stdout


started = {}


def fixture(kind):
    """One for all tests of a program."""
    if kind not in started:
        started[kind] = Fixture(kind)
    return started[kind]


class Redis:
    """A redis-server that can be told anything, restarted wiped, and that listens where it is
    told."""

    def __init__(self, *config, port=None, address="127.0.0.1"):
        if shutil.which("redis-server") is None:
            missing("redis-server")
        self.directory, self.address = tempfile.mkdtemp(prefix="dlock.", dir="/dev/shm"), address
        self.port = port or free_port()
        self.config, self.password = config, None
        self.url = f"redis://{address}:{self.port}/0?restart_grace=0"
        self.start()
        atexit.register(self.end)

    def start(self):
        with open(self.directory + "/conf", "w") as conf:
            conf.write("\n".join([f"port {self.port}", f"bind {self.address}",
                                  f"dir {self.directory}", 'save ""',
                                  f"unixsocket {self.directory}/s", f"logfile {self.directory}/log",
                                  *self.config]) + "\n")
        self.process = subprocess.Popen(["redis-server", self.directory + "/conf"],
                                        stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        within("redis-server answers", self.answers)

    def answers(self):
        try:
            return self.tell("PING")
        except OSError:
            return False

    def tell(self, *words):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(BOUND)
            s.connect(self.directory + "/s")
            login = (("AUTH", self.password),) if self.password else ()
            for line in (*login, words):
                text = f"*{len(line)}\r\n"
                text += "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in line)
                s.sendall(text.encode())
                answer = s.recv(65536).decode(errors="replace")
            return answer

    freeze, thaw = Fixture.freeze, Fixture.thaw

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def end(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Run:
    """`dlock VERB ARGUMENT...` in the background, `before` it other words; what it says in `err`.
    For `run`: its events. `pid` is dlock's own, also behind unshare -f."""
    number = 0

    def __init__(self, test, *words, before=(), dlock=None, **more):
        Run.number += 1
        self.test, self.name = test, f"{test.dir}/run{Run.number}"
        if words[0] == "run":
            words = ("run", "--status", self.name + ".events", *words[1:])
        with open(self.name + ".err", "w") as err, open(self.name + ".out", "w") as out:
            self.process = subprocess.Popen([*before, dlock or DLOCK, *words], stdout=out,
                                            stderr=err, cwd=test.dir,
                                            stdin=subprocess.DEVNULL,
                                            env={**clean, **more.pop("env", {})}, **more)
        self.pid = self.process.pid
        test.addCleanup(self.clean)

    def clean(self):
        for pid in [*children(self.pid), self.pid]:
            for inner in [*children(pid), pid]:
                try:
                    os.kill(inner, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()

    @property
    def err(self):
        return read(self.name + ".err")

    @property
    def out(self):
        return read(self.name + ".out")

    def events(self):
        lines = read(self.name + ".events").split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def event(self, name):
        return self.until(f"event {name}",
                          lambda: next((e for e in self.events() if e["event"] == name), None))

    def renewals(self):
        return len([e for e in self.events() if e["event"] == "renewed"])

    def until(self, what, question):
        try:
            return within(what, question)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.err}{self.events()}") from None

    def end(self, *wanted, seconds=BOUND):
        """Its exit status, which is one of `wanted`."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"goes on after {seconds} s: {self.err}") from None
        self.test.assertIn(status, wanted, f"{self.err}{self.events()}")
        return status


class Case(unittest.TestCase):
    """Each test has its own directory, `self.dir`, with an empty one for the locks,
    `self.locks`."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlock.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.locks = self.dir + "/locks"
        os.mkdir(self.locks, 0o700)
        self.file = "file:" + self.locks

    def run_dlock(self, *words, **more):
        return Run(self, "run", *words, **more)

    def tell(self, *words, wanted=(0,), before=(), dlock=None, **more):
        """`dlock VERB ARGUMENT...` to its end: its standard output and error."""
        done = subprocess.run([*before, dlock or DLOCK, *words], capture_output=True, text=True,
                              timeout=BOUND, cwd=self.dir,
                              stdin=subprocess.DEVNULL, env={**clean, **more.pop("env", {})},
                              **more)
        self.assertIn(done.returncode, wanted, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def killed(self, call, n, *words):
        """Whether dlock, its guard or its job was killed before its call number `n` of this kind,
        in any thread."""
        log = self.dir + "/trace"
        trace = ["strace", "-q", "-f", "-o", log, "-e", f"trace={call}", "-e",
                 f"inject={call}:signal=KILL:when={n}"]
        subprocess.run([*trace, DLOCK, *words], env=clean, stderr=subprocess.DEVNULL, timeout=BOUND,
                       check=False)
        return "killed by SIGKILL" in read(log)

    def judged(self, then="exec sleep 600"):
        """A job that only one process at a time may be: it leaves `overlap` if another is there."""
        return ["sh", "-c",
                f"exec 9>{self.dir}/judge; flock -n 9 || touch {self.dir}/overlap; "
                f"echo $$ >>{self.dir}/ran; {then}"]

    def runs(self):  # how often the judged job was started
        return len(read(self.dir + "/ran").split())

    def forget_runs(self):
        os.path.exists(self.dir + "/ran") and os.unlink(self.dir + "/ran")

    def alone(self):
        self.assertFalse(os.path.exists(self.dir + "/overlap"), "two jobs at a time")


def main():
    """Ends with 77 if all was skipped."""
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
