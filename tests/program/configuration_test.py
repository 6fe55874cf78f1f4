# SPDX-License-Identifier: Apache-2.0
"""Files of configuration, environment and command line; what config shows of them."""
import json, os, re
import harness
from harness import write


class Configuration(harness.Case):
    makes_locks = False

    def setUp(self):
        super().setUp()
        self.env["XDG_CONFIG_HOME"] = self.dir + "/xdg"
        self.users = "xdg/dlock/config.toml"
        os.makedirs("xdg/dlock")

    def write(self, path, *lines):
        write(path, "".join(line + "\n" for line in lines))

    def shown(self, *words, **more):
        """What config shows, without where that is from."""
        return re.findall("(?m)^([a-z].*?) *(?:#.*)?$", self.dlock("config", *words, **more).out)

    def test_report_of_cgroups(self):
        """config --report sees those of version 2, also beside those of version 1."""
        def report_in(place, **more):  # what the mount point holds
            return self.program(
                "unshare", "-m", "sh", "-c", "mount -t tmpfs cgroup /sys/fs/cgroup && "
                'cd /sys/fs/cgroup && eval "$0" && exec "$DLOCK" config --report', place, **more)
        if report_in("true", wanted=None).status:
            self.skipTest("needs the right to mount")
        for place, line in (("true", "no"), ("touch cgroup.controllers", "yes"),
                            ("mkdir unified && touch unified/cgroup.procs", "yes, beside v1")):
            self.assertLine(f"cgroup v2: {line}", report_in(place))

    def test_precedence(self):
        """Flag, environment, --config, the user's file; a profile overrides every file."""
        self.write(self.users, 'ttl = "1m"', 'wait = "1m"', 'reason = "user"', 'splay = "1s"',
                   "[profile.p]", 'splay = "2s"')
        self.write("other.toml", 'ttl = "2m"', 'wait = "2m"', 'reason = "file"', 'splay = "3s"')
        shown = self.shown("--config", "other.toml", "--profile", "p", "--ttl", "4m",
                           env={"DLOCK_WAIT": "3m", "DLOCK_TTL": "3m"})
        for line in 'ttl = "4m"', 'wait = "3m"', 'reason = "file"', 'splay = "2s"':
            self.assertIn(line, shown)

    def test_choice_as_a_whole(self):
        """It is overridden as a whole: -n on the command line disables wait of the file."""
        self.write(self.users, 'wait = "1h"')
        self.acquired("--key", "k")
        self.key("-n", "--", "true", wanted=75, bound=20)
        self.key("--", "true", env={"DLOCK_NONBLOCK": "1"}, wanted=75, bound=20)
        self.write(self.users, "nonblock = true")
        self.key("--", "true", wanted=75, bound=20)
        self.start_key("--", "true", env={"DLOCK_NONBLOCK": "0"}).event("waiting")

    def test_source_and_secrets(self):
        """config names the source, and hides secrets."""
        self.write(self.users, 'wait = "1m"')
        url = "redis://u:hidden@h/0"
        done = self.dlock("config", "-b", url)
        self.assertLine(f'wait = "1m"  # {self.dir}/{self.users}:1', done)
        self.assertLine(r'backend = "redis://u:\*+@h/0"  # command line', done)
        self.assertLine("# ttl = 30s", done)
        self.assertNotIn("hidden", done.out + done.err)
        done = self.dlock("config", "--report", "-b", url, env={"DLOCK_PASSWORD": "hidden"})
        self.assertNotIn("hidden", done.out + done.err)
        self.assertIn("DLOCK_PASSWORD", done.out)

    def test_any_command(self):
        """config shows what any command reads, each name once; what it prints is a file."""
        self.write(self.users, 'wait = "1h"')
        done = self.dlock("config", env={
            "DLOCK_WAIT": "3m", "DLOCK_OPS": "5", "DLOCK_DURATION": "1m", "DLOCK_NONBLOCK": "no",
            "DLOCK_FOREGROUND": "no"})
        for line in ('wait = "3m"  # DLOCK_WAIT',
                     'ops = "5"  # DLOCK_OPS',  # of bench: no choice with --wait
                     "nonblock = false  # DLOCK_NONBLOCK", 'foreground = "no"  # DLOCK_FOREGROUND',
                     "# max-hold = 1h"):
            self.assertIn(line, done.lines)
        names = re.findall("(?m)^(?:# )?([a-z-]+) = ", done.out)
        self.assertEqual(sorted(set(names)), sorted(names))
        self.write("made.toml", *(line for line in done.lines
                                  if not re.match("(ops|duration|backend) ", line)))
        self.assertIn('wait = "3m"', self.shown("--config", "made.toml"))

    def test_order(self):
        """config shows first what is set, then the defaults, by the commands that read them."""
        done = self.dlock("config", env={"DLOCK_WAIT": "3m", "DLOCK_CLIENTS": "2"})
        parts = done.out.split("\n\n")
        self.assertEqual(['wait = "3m"  # DLOCK_WAIT', 'clients = "2"  # DLOCK_CLIENTS',
                          f'backend = "file://{self.locks}"  # DLOCK_BACKEND'],
                         parts[0].splitlines())
        heads = [part.splitlines()[0] for part in parts[1:]]
        self.assertEqual(["# not set, of all commands:", "# not set, of all commands but fence:"],
                         heads[:2])
        for head, name in (("all commands but fence", "ttl"),
                           ("run, acquire and fence", "nonblock"),
                           ("run and acquire", "lock-delay"), ("run", "on-lost"),
                           ("acquire", "max-hold"), ("inspect", "columns"), ("bench", "duration")):
            part = parts[1 + heads.index(f"# not set, of {head}:")]
            self.assertRegex(part, f"(?m)^# {name} = ")
            self.assertNotRegex(part, "(?m)^[^#]")

    def test_option_of_another_command(self):
        """In the file it is ignored."""
        self.write(self.users, 'max-hold = "1m"', 'columns = "KEY"')
        self.key("--", "true")
        self.assertEqual("KEY", self.dlock("inspect").lines[0])

    def test_require_backend(self):
        """A command that names no backend is refused, and no other file undoes it."""
        del self.env["DLOCK_BACKEND"]
        self.env["XDG_STATE_HOME"] = self.dir + "/state"
        site = ["--config", "site.toml"]
        run = ["run", *site, "--key", "k"]
        self.write("site.toml", "require-backend = true")
        self.write(self.users, "require-backend = false")
        self.refused(78, "site.toml:1 requires one (require-backend): name it with -b URL", *run,
                     "--", "true")
        for words in ("acquire --key k", "inspect", "bench -N 1", "check --key k --token 3",
                      "run --explain --key k -- true"):
            verb, *rest = words.split()
            self.refused(78, "requires one", verb, *site, *rest)
        self.assertFalse(os.path.exists("state"))
        shown = self.dlock("config", *site).lines
        self.assertIn("require-backend = true  # site.toml:1", shown)
        self.assertIn("# backend = none, and required", shown)
        self.dlock(*run, "-b", self.file, "--", "true")
        self.dlock(*run, "--", "true", env={"DLOCK_BACKEND": self.file})
        self.write("site.toml", "require-backend = true", f'backend = "{self.file}"')
        self.dlock(*run, "--", "true")
        self.dlock("run", *site, "--help")
        self.write(self.users, "require-backend = true")
        self.write("site.toml", "require-backend = false")
        self.refused(78, "xdg/dlock/config.toml:1 requires one", *run, "--", "true")
        self.write("site.toml", 'require-backend = "perhaps"')
        self.refused(78, "site.toml:1: require-backend:", *run, "--", "true")
        self.dlock("fence", "--config", self.users, "--state", "f", "--token", "1", "--",
                   "true")  # has no backend

    def test_option_of_bench_as_well(self):
        """It counts for the others too."""
        del self.env["DLOCK_BACKEND"]
        os.mkdir("elsewhere", 0o700)
        elsewhere = f"{self.dir}/elsewhere"
        self.write(self.users, f'backend = "file:{elsewhere}"', 'recipe = "flock"',
                   'output = "json"', 'hold = "1ms"', 'duration = "1s"')
        self.key("--", "true")
        self.assertTrue(os.path.isfile("elsewhere/k"))
        shown = self.dlock("config").out
        for part in ('output = "json"', 'recipe = "flock"', f'backend = "file://{elsewhere}"',
                     'hold = "1ms"'):
            self.assertIn(part, shown)
        self.write(self.users, 'recipe = "nope"')
        self.refused(78, "config.toml:1: recipe", "run", "--key", "k", "--", "true")

    def test_password_file(self):
        """One that others may read is refused, as what is no file."""
        self.needs_backend("redis")  # that of files takes no password
        write("pw", "canary\n", 0o644)
        write("good", "canary\n")
        os.symlink("good", "link")
        os.mkfifo("fifo", 0o644)
        os.mkdir("directory")
        write("empty")
        words = ["inspect", "-b", "redis://127.0.0.1:1", "--password-file"]
        for file, why in (("pw", "mode 0644"), ("fifo", "mode 0644"), ("directory", "directory"),
                          ("empty", "first line is empty"), ("none", "No such file")):
            self.refused(78, why, *words, file, bound=20)
        for file in "good", "link":
            done = self.dlock(*words, file, "--connect-timeout", "100ms", wanted=69, bound=20)
            self.assertNotIn("canary", done.out + done.err)

    def test_log_format(self):
        """--log-format json: one object per line."""
        done = self.key("--log-format", "json", "--", "/nonexistent", wanted=127)
        line = json.loads(done.err)
        self.assertEqual(("error", "k"), (line["level"], line["key"]))
        done = self.dlock("release", "--log-format", "json", "--key", "k", "--handle",
                          "h1:file.lease:" + 32 * "0", wanted=75)
        self.assertEqual("k is not held by this handle", json.loads(done.err)["message"])


harness.main()
