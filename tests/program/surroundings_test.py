# SPDX-License-Identifier: Apache-2.0
"""The environments that dlock is started in: cron, services, closed descriptors, full disks."""
import contextlib, fcntl, json, os, re, resource, shlex, shutil, signal, subprocess, tempfile
import harness
from harness import DLOCK, FAKE, read, within, write
from pseudoterminal import Terminal

FULL, CLOSED = "full", "closed"


class Case(harness.Case):
    makes_locks = False

    def placed(self, *words, descriptors, dlock=None, wanted=0, **more):
        """dlock with these descriptors closed, or a full disk: {1: FULL, 2: CLOSED}."""
        def place():
            for number, what in descriptors.items():
                if what == FULL:
                    os.dup2(os.open("/dev/full", os.O_RDWR), number)
                else:
                    os.close(number)
        return self.dlock(*words, dlock=dlock, wanted=wanted, preexec_fn=place, bound=20, **more)

    def limited(self, words, dlock=None, wanted=None, **limits):
        """dlock with these limits of setrlimit(2)."""
        def limit():
            for name, value in limits.items():
                resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
        return self.dlock(*words, dlock=dlock, wanted=wanted, preexec_fn=limit, bound=20)

    def one_line(self, done, *parts):
        """One line on stderr, which has all parts."""
        self.assertRegex(done.err, r"\Adlock: [^\n]*\n\Z", str(done))
        for part in parts:
            self.assertIn(part, done.err)


class Descriptors(Case):
    def test_closed(self):
        """stdin, stdout, stderr: the job finds them closed, dlock works."""
        self.placed("run", "--key", "k", "--", "sh", "-c",
                    "[ ! -e /proc/self/fd/0 ] && touch ran", descriptors={0: CLOSED})
        self.assertTrue(os.path.exists("ran"))
        self.placed("run", "--key", "k", "--", "true",
                    descriptors={0: CLOSED, 1: CLOSED, 2: CLOSED})

    def test_stdout(self):
        """Closed or full: a result not printed is an error, the command of run is unaffected."""
        for descriptors in ({1: CLOSED}, {1: FULL}, {0: CLOSED, 1: CLOSED, 2: CLOSED},
                            {1: FULL, 2: FULL}):
            lost = FULL if descriptors[1] == FULL else CLOSED
            wanted, why = {FULL: (125, "No space left on device"),
                           CLOSED: (64, "standard output is not open for writing")}[lost]
            rows = [(3, "run --key k -- sh -c 'exit 3'"),
                    (3, "fence --state f --token 1 -- sh -c 'exit 3'"),
                    (75, "release --key k --force --yes"), (1, "check --key k --token 5")]
            rows += [(73, words) for words in (
                "inspect", "inspect -J k", "inspect --watch=20ms", "--version", "run --help",
                "run --explain --key k -- true")]
            for status, words in rows:
                with self.subTest(words, descriptors=descriptors):
                    self.placed(*shlex.split(words), descriptors=descriptors,
                                wanted=status)
            for form in [], ["--hold"], ["--keep", "--watch-pid", str(os.getpid())]:
                with self.subTest(form, descriptors=descriptors), open("/dev/zero") as zero:
                    done = self.placed("acquire", "--key", "k", *form, descriptors=descriptors,
                                       wanted=wanted, stdin=zero)
                    if 2 not in descriptors:
                        self.assertIn(why, done.err)
                    self.is_free("k")

    def test_stderr(self):
        """Closed or full: nothing else changes."""
        for what in CLOSED, FULL:
            for status, words in ((3, "run --key k -- sh -c 'exit 3'"),
                                  (75, "release --key k --force --yes"), (64, "run --key"),
                                  (0, "inspect")):
                with self.subTest(words, stderr=what):
                    done = self.placed(*shlex.split(words), descriptors={2: what},
                                       wanted=status)
                    if words == "inspect":
                        self.assertIn("free", done.out)

    def test_full_disk(self):
        """For status, trace, metrics: the command's status stands."""
        job = ("--", "sh", "-c", "exit 3")
        self.key("--status", "/dev/full", "--trace", "/dev/full", *job, wanted=3)
        with open("/dev/full", "w") as full:
            self.key("--status", str(full.fileno()), *job, pass_fds=[full.fileno()], wanted=3)
        done = self.key("--metrics-file", "/proc/no/such", *job, wanted=3)
        self.assertIn("--metrics-file", done.err)
        self.key("--status", "/proc/no/such", "--", "true", wanted=73)


class Metrics(Case):
    """--metrics-file."""

    def value(self, figure, file="m.prom"):
        return "".join(re.findall(rf"(?m)^dlock_{figure}{{.*}} (.*)$", read(file)))

    def files(self):
        return sorted(name for name in os.listdir() if not name.startswith("."))

    def metrics(self, *job, **more):
        return self.key("--metrics-file", "m.prom", "--", *job, **more)

    def test_counters(self):
        """They add up, gauges are of the last run, labels are escaped."""
        words = ["--key", 'a"b\\', "--metrics-file", "m.prom", "--"]
        self.dlock("run", *words, "true")
        self.dlock("run", *words, "sh", "-c", "exit 4", wanted=4)
        self.acquired("--key", 'a"b\\')
        self.dlock("run", "-n", *words, "true", wanted=75)
        text = read("m.prom")
        self.assertEqual(10, len(re.findall("(?m)^# TYPE", text)))
        for figure, value in (("runs_total", 2), ("skipped_total", 1), ("exit_status", 4),
                              ("running", 0)):
            self.assertIn(f'dlock_{figure}{{key="a\\"b\\\\"}} {value}', text.splitlines())
        self.assertRegex(self.value("last_success_timestamp_seconds"), r"\A[1-9]")
        self.assertEqual(["locks", "m.prom"], self.files())

    def test_running_and_skipped(self):
        """A running command is seen; a skipped run leaves what the last one did."""
        words = ["-n", "-E", "0", "--metrics-file"]
        run = self.start_key(*words, "m.prom", "--", "sh", "-c", "read go; exit 5",
                             stdin=subprocess.PIPE)
        run.until("it is seen", lambda: self.value("running") == "1")
        self.assertEqual(("0", ""), (self.value("runs_total"), self.value("exit_status")))
        began = self.value("last_start_timestamp_seconds")
        run.go().end(5)
        self.assertEqual(("0", "1", "5", began), tuple(map(self.value, (
            "running", "runs_total", "exit_status", "last_start_timestamp_seconds"))))
        shutil.copy("m.prom", "before")
        self.acquired("--key", "k")
        self.key(*words, "m.prom", "--", "true")
        self.assertEqual("1", self.value("skipped_total"))
        for name in ("running", "exit_status", "last_end_timestamp_seconds",
                     "last_start_timestamp_seconds", "held_seconds", "runs_total"):
            self.assertEqual(self.value(name, "before"), self.value(name), name)
        self.dlock("run", "-n", "-E", "0", "--key", "other", "--metrics-file", "first.prom", "--",
                   "true")
        done = self.key(*words, "new.prom", "-v", "--", "true")
        self.assertLine("dlock: k is held by .*; not waiting", done.err)
        self.assertNotRegex(read("new.prom"),  # there was no run
                            "dlock_exit_status|dlock_running|last_end")

    def test_eight_at_once(self):
        """Eight processes lose no count unsaid, from the first write on."""
        loop = ('for n in 1 2 3 4 5 6 7 8 9 10; do "$DLOCK" run --limit 8 --key k '
                "--metrics-file m.prom -- true || exit; done")
        loops = [subprocess.Popen(["sh", "-c", loop], env=self.env, stderr=subprocess.PIPE)
                 for _ in range(8)]
        said = [line for one in loops for line in harness.rest(one.stderr).splitlines()]
        for one in loops:
            one.stderr.close()
            self.assertEqual(0, one.wait())
        # On a busy machine one may get no turn in time; then it reports that.
        locked = "dlock: --metrics-file 'm.prom': not updated: others keep its .tmp locked"
        self.assertEqual([], [line for line in said if line != locked])
        self.assertEqual(80, int(self.value("runs_total")) + len(said))
        self.assertEqual(["locks", "m.prom"], self.files())

    def test_file_of_a_killed_process(self):
        """Its temporary file does no harm and counts for nothing."""
        self.metrics("true")
        write("m.prom.tmp", 'dlock_runs_total{key="k"} 77 and half a li\n')
        done = self.metrics("true")
        self.assertEqual("", done.out + done.err)
        self.assertEqual("2", self.value("runs_total"))
        self.assertEqual(["locks", "m.prom"], self.files())

    def test_no_turn(self):
        """A process that gets none reports it in a bounded time, changes nothing."""
        self.metrics("true")
        before = read("m.prom")
        with open("m.prom.tmp", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = self.metrics("sh", "-c", "exit 3", wanted=3, bound=20)
        self.assertEqual("dlock: --metrics-file 'm.prom': not updated: others keep its .tmp "
                         "locked\n", done.out + done.err)
        self.assertEqual(before, read("m.prom"))
        self.metrics("true")
        self.assertEqual("2", self.value("runs_total"))

    def test_full_disk(self):
        """It keeps the old figures, complete, and is reported."""
        words = ["run", "-b", "fake:", "--key", "k", "--metrics-file", "m.prom", "--", "sh", "-c"]

        def on_full_disk():  # as it does: no file can grow
            return self.limited([*words, "exit 3"], dlock=FAKE, wanted=3, FSIZE=0)
        self.assertRegex(on_full_disk().err, r"\Adlock: --metrics-file 'm.prom': not updated: ")
        self.assertEqual([], self.files())
        self.dlock(*words, "exit 0", dlock=FAKE)
        before = read("m.prom")
        on_full_disk()
        self.assertEqual(before, read("m.prom"))
        self.assertEqual(["m.prom"], self.files())

    def test_not_of_dlock(self):
        """What dlock cannot have written is kept, and reported."""
        write("long", 2000000 * "\0")
        write("target", "mine\n")
        os.symlink("target", "link")
        os.mkfifo("fifo")
        os.mkdir("dir")
        for file in "long", "link", "fifo", "dir", "/dev/null":
            why = "File too large" if file == "long" else "it is not a regular file"
            done = self.key("--metrics-file", file, "--", "sh", "-c", "exit 3", wanted=3)
            self.assertEqual(f"dlock: --metrics-file '{file}': not updated: {why}\n", done.err)
        self.assertEqual(("mine\n", "target", 2000000),
                         (read("target"), os.readlink("link"), os.path.getsize("long")))
        self.assertEqual(0o010000, os.stat("fifo").st_mode & 0o170000)
        self.assertFalse(os.path.exists("long.tmp"))


class Files(Case):
    """What is named as a file."""

    def test_link_of_another_user(self):
        """In a directory that others may write to it is not followed."""
        if os.getuid():
            self.skipTest("not root, and only root can give a link away")
        write("victim", "precious\n")
        for link in "own", "foreign":
            os.symlink("victim", link)
        os.chown("foreign", 12001, 12001, follow_symlinks=False)
        for option, verb, *words in (("--trace", "run", "--key", "k", "--", "true"),
                                     ("--status", "run", "--key", "k", "--", "true"),
                                     ("--trace", "inspect"),
                                     ("--html", "bench", "-N", "1", "--no-progress")):
            self.refused(73, option, verb, option, "foreign", *words)
        self.assertEqual("precious\n", read("victim"))
        done = self.key("--trace", "own", "--status", "/dev/stdout", "--", "true")
        self.assertIn('"event":"acquired"', done.out)
        self.assertIn("acquire", read("victim"))

    def test_fifo_without_the_other_end(self):
        """Refused, at once or after a while."""
        os.mkfifo("fifo", 0o600)
        for status, why, words in (
                (73, "fifo", "run --trace fifo --key k -- true"),
                (73, "fifo", "inspect --trace fifo"),
                (78, "has no writer", "run --config fifo --key k -- true"),
                (78, "has no writer", "check --handle @fifo --key k"),
                (73, "has no reader", "bench --html fifo -N 1 --no-progress")):
            with self.subTest(words):
                self.refused(status, why, *words.split(), bound=20)

    def test_fifo_as_certificate(self):
        """Or as a key: refused."""
        self.needs_backend("redis", "mysql")
        os.mkfifo("fifo", 0o600)
        for option in "ca", "cert", "key":
            other = [] if option == "ca" else ["--tls-cert", "fifo", "--tls-key", "fifo"]
            for url, more in (("rediss://127.0.0.1:1", other), ("mysql://127.0.0.1:1/db?tls=yes",
                                                                [])):
                self.refused(78, "not a regular file", "inspect", "-b", url, f"--tls-{option}",
                             "fifo", *more, "k", bound=20)

    def test_pipe_with_a_writer(self):
        """It is as good as a file."""
        handle = self.acquired("--key", "k")
        for text, status in (handle, 0), (handle[:-4] + "0000", 75):
            pipes = [os.pipe(), os.pipe()]
            for (_, writer), line in zip(pipes, ("quiet = true\n", text + "\n")):
                os.write(writer, line.encode())
                os.close(writer)
            config, file = (reader for reader, _ in pipes)
            done = self.dlock("renew", "--key", "k", "--config", f"/dev/fd/{config}", "--handle",
                              f"@/dev/fd/{file}", pass_fds=[config, file], wanted=status)
            self.assertEqual("", done.out + done.err)
            os.close(config)
            os.close(file)


class Limits(Case):
    def test_size_of_files(self):
        """73 and one line; no lock is held; what needs no file works."""
        for limit in 0, 1, 1000:  # 1000: the first change would fit, and the next would not
            for words in ["run", "--key", "k", "--", "touch", "ran"], ["acquire", "--key", "k"]:
                with self.subTest(words, limit=1024 * limit):
                    done = self.limited(words, wanted=73, FSIZE=1024 * limit)
                    self.assertEqual("", done.out)
                    self.one_line(done, "ulimit -f")
                    self.key("-n", "--", "true")
        self.limited(["inspect", "--trace", "trace", "k"], wanted=0, FSIZE=0)
        self.not_run()

    def test_size_of_files_of_the_job(self):
        """Its signal kills it."""
        self.limited(["run", "--key", "k", "--", "sh", "-c", "exec head -c 3000000 /dev/zero >big"],
                     wanted=-signal.SIGXFSZ, FSIZE=2048000)

    # With 14 to 16, one more for each that dlock inherits, the lock is had when the guard runs out.
    def test_descriptors(self):
        """Out of them: 69, 125 with the lock, and one line, never an endless wait."""
        if harness.sanitized():
            self.skipTest("the sanitizers want descriptors, too")
        self.key("--", "true")
        redis, statuses = self.built_with("redis"), set()
        for n in range(5, 21):
            for wait in ["-n"], ["-w", "1h"]:
                with self.subTest(n=n, wait=wait):
                    done = self.limited(["run", *wait, "--key", "k", "--", "sh", "-c", "exit 3"],
                                        wanted=(3, 69, 125), NOFILE=n)
                    statuses.add(done.status)
                    if done.status != 3:
                        self.one_line(done)
                    if done.status == 125:
                        self.assertRegex(done.err, r"\Adlock: k: .*: out of descriptors ")
            with self.subTest(n=n):
                if redis:
                    self.one_line(self.limited(["run", "-n", "-b", "redis://127.0.0.1:1", "--key",
                                                "k", "--", "true"], wanted=69, NOFILE=n))
                done = self.limited(["acquire", "--keep", "--watch-pid", str(os.getpid()), "--key",
                                     f"k{n}"], NOFILE=n)
                if done.status:
                    self.one_line(done)
                else:
                    self.dlock("release", "--key", f"k{n}", "--handle", done.out.strip())
        self.assertEqual({3, 69, 125}, statuses)

    def test_small_stack(self):
        if harness.sanitized():
            self.skipTest("the sanitizers want more")
        self.limited(["run", "--key", "k", "--", "sh", "-c", "exit 3"], wanted=3, STACK=65536)

    def test_no_shared_memory(self):
        """A job that shares none with its guard until its exec, as on Linux before 5.16."""
        old = ("setarch", "--uname-2.6")
        if self.program(*old, "true", wanted=None).status:
            self.skipTest("setarch cannot say another version")
        self.key("--", "sh", "-c", "exit 3", before=old, wanted=3)
        self.key("--", "./absent", before=old, wanted=127)

    def test_no_thread(self):
        """A running job runs to its end; a waiter reports it, 69."""
        def without(*words, **more):
            return self.limited(words, STACK=4000000 * 1024, AS=3000000 * 1024, **more)
        if without("--version").status:
            self.skipTest("this build does not run in 3 GB of addresses")
        without("run", "--key", "k", "--", "sh", "-c", "sleep 0.2; exit 3", wanted=3)
        done = without("run", "--key", "k", "--", "sh", "-c", "sleep 1.2 & exit 3", wanted=3)
        self.assertIn("the lock is held until they end", done.err)
        self.is_free("k")
        self.acquired("--key", "k")
        self.one_line(without("run", "--key", "k", "--", "true", wanted=69), "thread")

    def test_few_processes(self):
        """And threads: one line says what is needed, no job runs, the lock is free."""
        if harness.sanitized():
            self.skipTest("the sanitizers want threads, too")
        user = str(300000 + os.getpid())  # no other test has processes of this user
        as_user = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups",
                   "--inh-caps=+dac_override", "--ambient-caps=+dac_override")
        if self.program(*as_user, "true", wanted=None).status:
            self.skipTest("needs the right to be another user")
        self.key("--", "true", before=as_user)

        def none_left():  # they count until they are reaped
            return not any(f"\nUid:\t{user}\t" in read(f"/proc/{pid}/status")
                           for pid in filter(str.isdigit, os.listdir("/proc")))
        statuses = []
        for n in range(1, 7):
            within("no process of this user is left", none_left)
            done = self.key("--", "sh", "-c", "echo ran; exit 3", wanted=None,
                            before=(*as_user, "bash", "-c", f'ulimit -u {n} && exec "$@"', "bash"))
            statuses.append(done.status)
            if done.status != 3:
                self.assertEqual("", done.out)
                self.one_line(done, "(ulimit -u)", "up to 6")
                self.dlock("inspect", "--check", "k", before=as_user)
        # dlock, its guard with two threads, the command; where the start takes long, dlock has
        # threads, too, before the command is there.
        self.assertEqual([69, 125, 125], statuses[:3])
        self.assertLessEqual(set(statuses[3:5]), {3, 125})
        self.assertEqual(3, statuses[5])

    def test_many_long_keys(self):
        """64 keys with the longest names."""
        key = 98 * "é"
        words = [word for n in range(100, 164) for word in ("--key", f"{n}{key}")]
        done = self.dlock("run", *words, "--", "sh", "-c", 'echo "$DLOCK_GRANTS"', bound=20)
        self.assertEqual(64, len(done.json))
        # With an ancestor's variables the environment exceeds what exec accepts.
        start = read(f"/proc/{os.getpid()}/stat").rpartition(")")[2].split()[19]
        grant = {"key": "o", "handle": f"h1:file.lease:{0:032d}",
                 "sequencer": "v1:file.lease:o:X:5",
                 "guard": {"pid": os.getpid(), "start": int(start)}, "x": 90000 * "0"}
        done = self.dlock("run", *words, "--", "true", wanted=64, bound=20,
                          env={"DLOCK_GRANTS": json.dumps([grant], separators=(",", ":"))})
        self.assertIn("run: --key: DLOCK_GRANTS needs ", done.err)
        self.is_free("100" + key)

    def test_memory(self):
        """While a job runs, dlock and its guard have at most a MiB of memory of their own."""
        if harness.sanitized():
            self.skipTest("the sanitizers want more")
        held = self.hold_by_job()
        def own():
            return [int(kb) for pid in (held.pid, held.guard)
                    for kb in re.findall("Private_Dirty: *([0-9]+)",
                                         read(f"/proc/{pid}/smaps_rollup"))]
        self.assertEqual(2, len(own()))
        within("at most a MiB, once the start is over", lambda: sum(own()) <= 1024)


class Proc(Case):
    def test_another_namespace(self):
        """/proc of another PID namespace: no job is started that could not be ended."""
        apart = ("unshare", "--pid", "--fork")
        if self.program(*apart, "--mount-proc", "true", wanted=None).status:
            self.skipTest("needs the right to make namespaces")
        done = self.key("--", "touch", "ran", before=apart, wanted=78)  # not 69: try again
        self.assertIn("/proc does not list our child processes", done.err)
        self.not_run()
        self.key("--", "sh", "-c", "exit 3", before=(*apart, "--mount-proc"), wanted=3)

    def test_none(self):
        """acquire makes its directory, run says why it cannot."""
        if self.program("unshare", "-m", "umount", "-l", "/proc", wanted=None).status:
            self.skipTest("needs the right to make namespaces")
        without = ("unshare", "-m", "sh", "-c", 'umount -l /proc && exec "$@"', "sh")
        made = ["-b", f"file:{self.dir}/made", "--key"]
        self.dlock("acquire", *made, "k", before=without)
        done = self.dlock("run", *made, "other", "--", "true", before=without, wanted=78)
        self.assertIn("/proc does not list our child processes", done.err)


class Places(Case):
    def test_home(self):
        """The default directory of a user has no double slash, wherever the home is."""
        as_user = ("setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=+dac_override",
                   "--ambient-caps=+dac_override")
        if self.program(*as_user, "true", wanted=None).status:
            self.skipTest("needs the right to be another user")
        del self.env["DLOCK_BACKEND"]
        for variable, home, directory in (
                ("HOME", "/", "/.local/state/dlock"), ("XDG_STATE_HOME", "/", "/dlock"),
                ("HOME", "/home/me/", "/home/me/.local/state/dlock")):
            done = self.dlock("run", "--explain", "--key", "k", "--", "true", before=as_user,
                              env={"XDG_STATE_HOME": "", variable: home})
            self.assertIn(f" in file:{directory}, file recipe lease", done.out)

    def test_systemd_units(self):
        """Those of dlock-run(1) are valid."""
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        blocks = re.findall(r"(?ms)^\[Unit\]$.*?(?=^\.Ed)",
                            read(harness.ROOT + "/man/dlock-run.1"))
        self.assertGreaterEqual(len(blocks), 2)
        for n, text in enumerate(blocks):
            write(f"unit{n}.service", re.sub("/usr/[a-z/]*bin/[a-z]*", "/bin/true", text))
            done = self.program("systemd-analyze", "verify", "--man=no",
                                f"{self.dir}/unit{n}.service", wanted=None)
            self.assertNotIn(f"unit{n}.service", done.out + done.err)

    def test_doctor(self):
        """inspect --doctor: fit, and not fit."""
        if DLOCK.startswith(tempfile.gettempdir() + "/"):
            self.skipTest("the build is in the directory for temporary files")
        # not below the directory for temporary files
        with tempfile.TemporaryDirectory(dir=os.path.dirname(DLOCK)) as fit:
            words = ["inspect", "--doctor", "-b", "file:" + fit]
            done = self.dlock(*words)
            user = f"of uid {os.getuid()}"
            for line in ("note +one machine.*", ".*fit to keep locks.*",
                         f"ok +directory +{fit}, mode 0700, {user}",
                         "ok +way to it +only its owner and root may write", "ok +clock +[a-z].*",
                         "ok +free space +[0-9]+ MiB, [0-9]+ inodes"):
                self.assertLine(line, done)
            os.chmod(fit, 0o2770)
            done = self.dlock(*words)
            self.assertLine(f"ok +directory +{fit}, mode 2770, {user}, shared by the members of "
                            f"gid {os.getgid()}", done)
            self.assertTrue(self.dlock(*words, "-J").json["fit"])

    @contextlib.contextmanager
    def directory_of_all_users(self):
        """As /run/lock; it is the backend, with recipe flock."""
        if os.geteuid() != 0:
            self.skipTest("only root can act as two users")
        if DLOCK.startswith(tempfile.gettempdir() + "/"):
            self.skipTest("the build is in the directory for temporary files")
        with tempfile.TemporaryDirectory(dir=os.path.dirname(DLOCK)) as place:
            os.chmod(place, 0o1777)
            self.env["DLOCK_BACKEND"] = f"file:{place}?recipe=flock"
            yield place

    def test_flock_of_all_users(self):
        """Fit, with a warning. What a stranger puts in the place of the records is named and bars
        nobody, neither runs inside."""
        with self.directory_of_all_users() as place:
            done = self.dlock("inspect", "--doctor")
            for line in (f"ok +directory +{place}, mode 1777, of uid 0",
                         "warning +users +all may write to the directory",
                         "ok +way to it +only its owner and root may write",
                         "ok +permission +may make locks here", "fit to keep locks: 0 bad,.*"):
                self.assertLine(line, done)
            os.rmdir(place + "/.dlock-0")
            os.mkdir(place + "/.dlock-0", 0o700)
            os.chown(place + "/.dlock-0", 12002, 12002)
            foreign = f"{place}/.dlock-0: belongs to uid 12002"
            self.assertLine(f"BAD +permission +{foreign}",
                            self.dlock("inspect", "--doctor", wanted=1))
            inner = f"{DLOCK} run -n --key k -- touch ran; echo $?; {DLOCK} check --key k; echo $?"
            done = self.key("--", "sh", "-c", inner)
            self.assertEqual("0\n77\n", done.out)
            self.assertTrue(os.path.exists("ran"))
            self.assertEqual(f"dlock: {foreign}; until that is corrected, check and release "
                             "--force do not know this lock", done.err.splitlines()[0])

    def test_nested_flock_of_another_user(self):
        """It uses the lock of its outer run, as after su, and after a chmod of the directory."""
        other = "setpriv --reuid=12001 --regid=12001 --clear-groups --"
        with self.directory_of_all_users() as place:
            self.env["HOME"] = "/nonexistent"
            if self.program(*other.split(), DLOCK, "--version", wanted=None).status:
                self.skipTest("another user cannot run this build")
            nested = f"{DLOCK} run -n --key k"
            for options, inner in (
                    ([], f"{other} {nested}"), (["-s"], f"{other} {nested} -s"),
                    (["--key", "a"], f"{other} {nested} --key a"),
                    ([], f"{nested} -- {other} {nested}"), ([], f"{other} {nested} -- {nested}"),
                    ([], f"chmod 755 {place}; {nested}"), ([], f"chmod 1777 {place}; {nested}")):
                with self.subTest(inner, options=options):
                    done = self.key(*options, "--", "sh", "-c",
                                    f"echo $DLOCK_TOKEN; {inner} -- sh -c 'echo $DLOCK_TOKEN'")
                    self.assertEqual(2, len(done.lines))
                    self.assertEqual(*done.lines)
            outer = self.start_key("--", "sh", "-c", 'echo "$DLOCK_GRANTS"; exec sleep 60')
            outer.prints("}]\n")
            grant, = json.loads(outer.out)
            start = read(f"/proc/{os.getpid()}/stat").rpartition(")")[2].split()[19]
            grant["guard"] = {"pid": os.getpid(), "start": int(start)}
            self.refused(77, "--no-reentrant", "run", "--key", "k", "--", "touch", "ran",
                         env={"DLOCK_GRANTS": json.dumps([grant])}, before=other.split())
            self.not_run()

    def test_doctor_of_flock(self):
        """It says nothing of what recipe flock does not have."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            for recipe, what in ("lease", " and --once-per records"), ("flock", ""):
                done = self.dlock("inspect", "--doctor", "-b", f"file:{place}?recipe={recipe}",
                                  wanted=None)
                self.assertLine(f" +-> fencing tokens{what} are gone after a restart of .*", done)

    def test_watch_without_terminal(self):
        """A line per change, and the end of the reader ends it."""
        watcher = self.start("inspect", "--watch=20ms", "k")
        watcher.prints('"free"')
        handle = self.acquired("--key", "k")
        watcher.prints('"held"')
        self.dlock("release", "--key", "k", "--handle", handle)
        watcher.until("a third line", lambda: watcher.out.count("\n") >= 3)
        watcher.send(signal.SIGTERM).end()
        self.assertEqual(3, watcher.out.count("\n"))
        watcher = self.start("inspect", "--watch=20ms", "k", stdout=subprocess.PIPE)
        watcher.process.stdout.readline()
        watcher.process.stdout.close()
        watcher.end(0)

    def test_watch_at_a_terminal(self):
        """Redrawn, q ends it."""
        self.acquired("--key", "k", "--reason", "seen")
        self.env["TERM"] = "xterm"
        run = Terminal(self, "inspect", "--watch=50ms").shows("q ends")
        run.shows("seen").shows("seen").type("q").end(0)

    def test_directory(self):
        """-b makes only the last part of it, and says so."""
        typo, new = self.dir + "/typo", self.dir + "/new"
        say = "dlock: --backend: lock directory "

        def run(place, *options, **more):
            return self.dlock("run", *options, "-b", f"file:{place}", "--key", "k", "--", "echo",
                              "ran", **more)
        self.refused(73, f"lock directory {typo}/locks: {typo} does not exist either", "run", "-q",
                     "-b", f"file:{typo}/locks", "--key", "k", "--", "true")
        self.refused(73, "only the last part", "acquire", "-q", "-b", "file:typo/locks", "--key",
                     "k")
        done = run(new)
        self.assertEqual("ran\n", done.out)
        self.assertEqual(f"{say}{new} does not exist; the first lock makes it\n", done.err)
        self.assertEqual("", run(new).err)
        self.assertIn("does not exist", self.dlock("inspect", "-b", f"file:{typo}").err)
        for words in "inspect", "inspect k", "run --explain --key k -- true":
            verb, *rest = words.split()
            self.assertEqual(f"{say}{typo}/locks does not exist, and neither does {typo}\n",
                             self.dlock(verb, "-b", f"file:{typo}/locks", *rest).err)
        self.refused(73, "create lock directory /proc/new: No such file or directory", "run", "-q",
                     "-b", "file:/proc/new", "--key", "k", "--", "true")
        self.refused(73, f"lock directory {typo}: does not exist, and recipe flock makes none",
                     "run", "-b", f"file:{typo}?recipe=flock", "--key", "k", "--", "true")
        self.assertFalse(os.path.exists(typo))

    def test_nested(self):
        """On another backend it warns once; on the same one it does not."""
        for place in "one", "two":
            os.mkdir(place, 0o700)
        one, two = (f"file:{self.dir}/{place}" for place in ("one", "two"))

        def nested(*words):
            return self.dlock("run", "-b", one, "--key", "k", "--", DLOCK, "run", *words, "--",
                              "echo", "ran")
        done = nested("-b", two, "--key", "a", "--key", "b")
        self.assertEqual("ran\n", done.out)
        self.one_line(done, f"the dlock around this one holds 'k' on file://{one[5:]}, and this "
                      f"one asks file://{two[5:]}")
        self.assertEqual("", nested("-q", "-b", two, "--key", "k").err)
        os.symlink(self.dir, "link")
        for same in one, f"file:{self.dir}/link/one":
            self.assertEqual("", nested("-b", same, "--key", "j").err)


harness.main()
