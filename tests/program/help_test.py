# SPDX-License-Identifier: Apache-2.0
"""The help texts. (manual compares them with the pages.)"""
import hashlib, os, re
import harness
from harness import FAKE

COMMANDS = "run acquire renew release check fence inspect bench config".split()


class Help(harness.Case):
    makes_locks = False

    def help(self, *words):
        done = self.dlock(*words)
        self.assertEqual("", done.err)
        return done

    def options(self, command, which="--help=all"):
        return re.findall(r"(?m)^ +(?:-., )? *--([a-z-]+)", self.help(command, which).out)

    def test_commands(self):
        """--help shows what is needed every day and an example, --help=all the rest."""
        for command in COMMANDS:
            with self.subTest(command):
                self.assertLessEqual(set(self.options(command, "--help")),
                                     set(self.options(command)))
                done = self.help(command, "--help")
                self.assertTrue(done.out.startswith(f"usage: dlock {command} "))
                self.assertLine("Example:", done)
                self.assertLine(f"dlock {command} --help=all lists all "
                                f"{len(self.options(command))} options.*", done)
                self.assertNoLine("Environment", done)
                self.help(command, "-q", "--help")
                for which in "--help", "--help=all":  # fits a terminal
                    self.assertEqual([], [line for line in self.help(command, which).lines
                                          if len(line) > 80 and not line.startswith("usage")])
        self.assertLessEqual(len(self.options("run", "--help")), 22)
        self.assertLine(r"  0 3 \* \* \*  dlock run .* --once-per day .* -- .*",
                        self.help("run", "--help"))
        self.refused(64, "--help: 'some' is not all", "run", "--help=some")

    def test_dlock(self):
        """dlock --help lists the commands and the exit statuses."""
        done = self.help("--help")
        for command in COMMANDS:
            self.assertLine(f"  {command} .*", done)
        for status in 0, 1, 64, 69, 70, 73, 75, 77, 78, 123, 124, 125, 126, 127:
            self.assertLine(f"  {status} .*", done)

    def test_version(self):
        """The version, the backends, their recipes, the default."""
        done = self.help("--version")
        self.assertRegex(done.lines[0], r"\Adlock [0-9]+\.[0-9]+\.[0-9]+\Z")
        self.assertLine(r"file: lease \(default\), flock", done)
        self.assertLine(r"uses .*fmt [0-9.]+, nlohmann-json [0-9.]+, toml\+\+ [0-9.]+, "
                        "CLI11 [0-9.]+, glibc [0-9.]+", done)
        if self.built_with("redis"):
            self.assertLine("uses hiredis [0-9.]+, OpenSSL [0-9.a-z]+, .*", done)

    def test_explain(self):
        """It prints on stdout, runs nothing and locks nothing."""
        done = self.help("run", "--explain", "--key", "k", "--min-hold", "1m", "--max-run", "2h",
                         "--lock-delay", "3", "--", "touch", "ran")
        self.not_run()
        self.assertFalse(os.path.exists("locks/k"))
        for line in (rf"lock +k \(exclusive\) in .*{self.dir}/locks.*, file recipe lease",
                     "renewed +never: .* there is no deadline", "longest run +2h.*",
                     "shortest hold +1m.*", "lock-delay +3s.*", "weakness +..*"):
            self.assertLine(line, done)

    def test_replaced_name(self):
        """--explain and -v name the lock of a key that is too long for MySQL."""
        self.needs_backend("mysql")
        key = "x" * 70
        line = f"{key} is locked as dlock:{hashlib.sha1(key.encode()).hexdigest()}, because a .*"
        words = "-b", "mysql://127.0.0.1:1/d?recipe=get-lock", "--key", "k", "--key"
        self.assertLine(f"name +{line}", self.dlock("run", "--explain", *words, key, "--", "true"))
        self.assertNoLine("name .*", self.dlock("run", "--explain", *words, "l", "--", "true"))
        done = self.dlock("run", "-vn", *words, key, "--", "true", wanted=69)
        self.assertLine(f"dlock: {line}", done.err)

    def test_explain_lease(self):
        """Of a lease: the times add up."""
        done = self.dlock("run", "-b", "fake:", "--explain", "--key", "k", "--ttl", "10s",
                          "--kill-after", "2s", "--op-timeout", "1s", dlock=FAKE)
        # proven 9.898s, margin 500ms
        self.assertLine(r"renewed +every 3\.[23][0-9]*s, each try at most 1s", done)
        self.assertLine(r"if the store is gone +from t=0: end signal at 7\.[34][0-9]*s, KILL at "
                        r"9\.[34][0-9]*s; the lease ends at 9\.[89][0-9]*s here, 10s there", done)


harness.main()
