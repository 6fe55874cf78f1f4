# SPDX-License-Identifier: Apache-2.0
"""Stores for tests in Python: what the program `store` runs (store.cpp; $STORE_PROGRAM)."""
import atexit, ctypes, functools, json, os, shutil, signal, subprocess, tempfile, time, unittest

BOUND = float(os.environ.get("BOUND", 60))  # s: of what is no promise


def within(what, question, seconds=BOUND):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = question()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"not within {seconds} s: {what}")


def missing(what):
    if os.environ.get("CI") == "true":
        raise AssertionError(what + " is not installed")
    raise unittest.SkipTest(what + " is not installed")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Store:
    """`store KIND FILE OPTION...`, its server answers: `url`, and what store.cpp says it does."""

    def __init__(self, kind, *options):
        program = os.environ.get("STORE_PROGRAM") or missing("the program store")
        self.kind, self.directory = kind, tempfile.mkdtemp(prefix="dlock.")
        with open(self.directory + "/err", "w+") as err:
            self.process = subprocess.Popen(
                [program, kind, self.directory + "/url", *options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
            atexit.register(self.end)
            self.process.stdin.write("url\n")
            try:
                self.process.stdin.flush()
                self.url = self.answer("url")
            except OSError:
                err.seek(0)
                said = err.read().strip()
                if self.process.wait() == 77:
                    raise unittest.SkipTest(said) from None
                raise RuntimeError(f"{kind}: {said}") from None

    def answer(self, what):
        state, _, value = self.process.stdout.readline().rstrip("\n").partition(" ")
        if not state:
            raise BrokenPipeError(what)
        if state != "ok":
            raise RuntimeError(f"{self.kind}: {what}: {value}")
        return value

    def ask(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.answer(words)

    freeze, thaw = functools.partialmethod(ask, "freeze"), functools.partialmethod(ask, "thaw")
    kill, start = functools.partialmethod(ask, "kill"), functools.partialmethod(ask, "start")
    restart = functools.partialmethod(ask, "restart")

    def fresh(self, name):  # the URL of a part of the store that was never used
        return self.ask("fresh", name)

    def tell(self, *words):
        return json.loads(self.ask("tell", json.dumps(words)))

    @property
    def pid(self):
        return int(self.ask("pid"))

    @property
    def host(self):  # HOST:PORT; of several with commas
        return self.url.split("://")[1].split("@")[-1].split("/")[0].split("?")[0]

    @property
    def port(self):  # of the first
        return int(self.host.split(",")[0].split(":")[1])

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)
