# SPDX-License-Identifier: Apache-2.0
"""dlock and its stores for the tests beside this file, which run them in surroundings that hurt.
Every wait is for an event, with a bound. CTest gives the programs in the environment."""
import json, os, shutil, signal, socket, subprocess, sys, tempfile, time, unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from store import BOUND, Store, missing, within

DLOCK = os.environ.get("DLOCK", "")
clean = {k: v for k,
         v in os.environ.items() if not k.startswith("DLOCK_") or k == "DLOCK_TEST_MUTANT"}


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


started = {}


def fixture(kind):
    """One for all tests of a program."""
    if kind not in started:
        started[kind] = Store(kind)
    return started[kind]


def Redis(*config):
    """One with these lines of configuration; restarted, it has forgotten everything."""
    return Store("redis", "--items", "/0?restart_grace=0", "--config", "\n".join(config))


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
