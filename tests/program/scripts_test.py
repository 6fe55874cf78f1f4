# SPDX-License-Identifier: Apache-2.0
"""The scripts for new users, on a tree with a fake cmake that counts its calls."""
import os, re, shutil, signal, time
import harness
from harness import ROOT, alive, read, within, write
from pseudoterminal import Terminal

SCRIPTS = ROOT + "/scripts"
# Configuring makes the files that cmake makes; building makes a "dlock" that prints its name and
# exits with its first argument.
CMAKE = r"""#!/bin/bash
for ((n = 1; n <= ${STEPS:-1}; ++n)); do echo "[$n/$STEPS] chatter"; done
case $1 in
  --build)
    if [ -n "$BREAK" ]; then echo "main.cpp:1: error: as told" && exit 1; fi
    [ -z "$GATE" ] || read -r _ <"$GATE"
    mkdir -p "$2/src"
    printf '#!/bin/sh\n[ "$1" != PID ] || exec echo $$\necho "dlock($#): $*"\nexit ${1:-0}\n' \
      >"$2/src/dlock"
    chmod +x "$2/src/dlock"
    ;;
  *)
    while [ "$1" != -B ]; do
      [ "$1" != -S ] || home=$2
      shift
    done
    touch "$2/build.ninja" && echo "CMAKE_HOME_DIRECTORY:INTERNAL=$home" >"$2/CMakeCache.txt"
    ;;
esac
echo "$*" >>"${0%/*}/../calls"
"""
# Has done the tests of build-test at once, and waits for any other test.
CTEST = """#!/bin/sh
if [ "$2" = build-test ]; then
  mkdir -p build-test/Testing/Temporary
  exec touch build-test/Testing/Temporary/LastTest.log
fi
sleep 600 &
echo $! >"$0.$(basename "$2").new" && mv "$0.$(basename "$2").new" "$0.$(basename "$2")"
wait
"""


class Case(harness.Case):
    bound = 4 * harness.BOUND  # of scripts that start hundreds of programs

    def setUp(self):
        super().setUp()
        self.tree = self.dir + "/a tree"
        for directory in "scripts", "src", "backends":
            os.makedirs(f"{self.tree}/{directory}")
        os.mkdir("bin")
        self.stand_in("cmake", CMAKE)
        self.env["PATH"] = f"{self.dir}/bin:{self.env['PATH']}"
        self.copy("dlock", "deps")
        write(self.tree + "/CMakeLists.txt")
        write(self.tree + "/src/main.cpp")

    def stand_in(self, name, text):
        write("bin/" + name, text, mode=0o700)

    def copy(self, *names):
        for name in names:
            shutil.copy(f"{SCRIPTS}/{name}", self.tree + "/scripts/")

    def tree_of_tests(self):
        """Where scripts/prove, test, fuzz and mutants can see what they are asked for, and deps
        does nothing but tell."""
        self.copy("prove", "test", "fuzz", "mutants", "builds", "check", "peers")
        write(self.tree + "/scripts/deps", f'#!/bin/sh\necho deps >>"{self.dir}/calls"\n', 0o700)
        for directory in "pure/fuzz/corpus/url", "program", "mutants":
            os.makedirs(f"{self.tree}/tests/{directory}")
        write(self.tree + "/tests/mutants/table", "late | a fault | I1 | target | false\n")

    def tool(self, line, **more):
        name, *words = line.split()
        return self.program(f"{self.tree}/scripts/{name}", *words, **more)

    def builds(self):
        return re.findall("(?m)^--build .*", read("calls"))

    def never_called(self):
        self.assertEqual("", read("calls"))


class Deps(Case):
    def test_nothing_is_missing(self):
        """No output, no network."""
        done = self.program(SCRIPTS + "/deps", "build")
        self.assertEqual("", done.out + done.err)

    def test_unknown_purpose(self):
        done = self.program(SCRIPTS + "/deps", "tests", wanted=64)
        self.assertIn("'tests' is not one of build, test, services, peers, comparison, builds, "
                      "package, arm64, all", done.err)

    def test_apt_fails(self):
        """69 and the packages that could not be installed."""
        self.stand_in("dpkg-query", "#!/bin/sh\nexit 1\n")
        self.stand_in("apt-get", "#!/bin/sh\necho chatter\n"
                      'case $* in *install*) echo "E: no such luck" >&2; exit 100 ;; esac\n')
        self.stand_in("sudo", '#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n')
        done = self.program(SCRIPTS + "/deps", "build", wanted=69)
        self.assertIn("E: no such luck", done.err)
        self.assertIn("apt-get failed. As root: apt-get install --no-install-recommends g++",
                      done.err)
        self.assertNotIn("chatter", done.out + done.err)


class Dlock(Case):
    """scripts/dlock"""

    def setUp(self):
        super().setUp()
        self.script = self.tree + "/scripts/dlock"
        self.age()

    def age(self):
        """Older than any build that starts now, even with coarse times of files."""
        past = time.time() - 60
        for directory, _, files in os.walk(self.tree):
            for name in ".", *files:
                os.utime(f"{directory}/{name}", (past, past))

    def newer(self, name):
        os.utime(f"{self.tree}/{name}", (time.time() + 60,) * 2)

    def test_first_call(self):
        """It builds all that cmake --install needs; output, arguments and status are the
        binary's."""
        done = self.program(self.script, "7", "a  b", "", wanted=7)
        self.assertEqual("dlock(3): 7 a  b \n", done.out)
        self.assertIn("first use", done.err)
        self.assertEqual("", self.program(self.script, "3", wanted=3).err)
        build, = self.builds()
        self.assertRegex(build, "--target dlock completions$")

    def test_progress(self):
        """Off a terminal a long build prints a line a minute."""
        # A clock of which each look is 25 s after the last.
        self.stand_in("date", '#!/bin/sh\nat=$(cat "$0.at" 2>/dev/null || echo 0)\n'
                      'echo $((at + 25)) >"$0.at"\necho $at\n')
        done = self.program(self.script, "0", env={"STEPS": "7"})
        # 14 lines, of cmake -S and cmake --build: the third, sixth, ninth and twelfth.
        self.assertLine(r"dlock: still building: \[./7\] chatter", done.err, times=4)

    def test_from_anywhere(self):
        """Through a symbolic link, without stdin or stderr."""
        os.symlink(self.script, "bin/dl")
        done = self.program("sh", "-c", 'exec "$0" 5 <&- 2>&-', self.dir + "/bin/dl", wanted=5,
                            cwd="/")
        self.assertEqual("dlock(1): 5\n", done.out)
        self.program("sh", "-c", "dl 4", wanted=4, cwd="/")
        self.program("sh", "dlock", "6", wanted=6, cwd=self.tree + "/scripts")
        self.assertEqual(1, len(self.builds()))

    def test_process(self):
        """The binary replaces the script, so it gets all signals."""
        self.program(self.script, "0")
        run = self.start("PID", dlock=self.script)
        run.end(0)
        self.assertEqual(f"{run.pid}\n", run.out)

    def test_newer_source(self):
        """It is built; a newer README is not."""
        self.program(self.script)
        self.age()
        write(self.tree + "/src/README.md")
        os.utime(self.tree + "/build/.built")  # the line before made its directory newer
        self.newer("src/README.md")
        self.program(self.script)
        self.assertEqual(1, len(self.builds()))
        self.newer("src/main.cpp")
        self.program(self.script, "2", wanted=2)
        self.assertEqual(2, len(self.builds()))

    def test_build_fails(self):
        """69, the end of its log, and the name of this."""
        done = self.program(self.script, "0", env={"BREAK": "yes"}, wanted=69)
        self.assertIn("main.cpp:1: error: as told", done.err)
        self.assertIn(f"its log is {self.tree}/build/build.log", done.err)
        self.program(self.script, "0")

    def test_two_first_calls(self):
        """They build once."""
        os.mkfifo("gate")
        runs = [self.start("0", dlock=self.script, env={"GATE": self.dir + "/gate"})]
        runs[0].says("first use")
        runs.append(self.start("0", dlock=self.script))
        runs[1].says("dlock: another call is building; waiting for it\n")
        write("gate", "go\n")
        for run in runs:
            run.end(0)
            self.assertEqual("dlock(1): 0\n", run.out)
        self.assertEqual(1, len(self.builds()))

    def test_copy(self):
        """A copy of a built tree is configured anew."""
        self.program(self.script)
        self.program("cp", "-a", self.tree, "copy")
        self.newer("../copy/src/main.cpp")
        self.program("copy/scripts/dlock")
        self.assertEqual(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.dir}/copy\n",
                         read("copy/build/CMakeCache.txt"))


class Lines(Case):
    """The command lines of scripts/prove, test, fuzz, ..."""

    def setUp(self):
        super().setUp()
        self.tree_of_tests()

    def test_wrong(self):
        """One line and 64, before any package or build."""
        for line in ("prove nosuch", "prove state nosuch", "prove state --faults",
                     "prove --nosuch", "prove --simulation --faults", "prove --defaults file",
                     "prove --faults --nosuch", "prove --faults --budget",
                     "prove --faults --budget --json /tmp/f.json", "prove --faults file",
                     "prove --comparison --seconds", "prove --many nosuch",
                     "prove --mutants nosuch", "prove --mutants --check late", "test nosuch",
                     "test --rest --full", "test --only", "test --only program pure",
                     "test --only nosuch", "fuzz nosuch", "fuzz -t", "fuzz -t x", "fuzz -x",
                     "mutants --nosuch"):
            with self.subTest(line):
                done = self.tool(line, wanted=64)
                self.assertRegex(done.out + done.err,
                                 r"\Ascripts/(prove|test|fuzz|mutants): [^\n]*\n\Z")
                self.never_called()

    def test_help(self):
        """0, on stdout; it builds nothing."""
        for line in ("prove", "prove --faults", "prove --many", "prove --mutants", "test", "fuzz",
                     "mutants", "builds", "check", "peers"):
            with self.subTest(line):
                done = self.tool(line + " --help")
                self.assertEqual("", done.err)
                self.assertIn("scripts/", done.out)
                self.never_called()

    def test_options_behind(self):
        """Those that prove lets through are those of the programs behind it."""
        for mode, file in (("--faults", "faults/main.cpp"),
                           ("--comparison", "measure/comparison/compare.py"),
                           ("--many", "measure/many/many.py")):
            takes = re.search(rf"(?ms)^  {mode}\)$.*?(takes.*?[^\\])$", read(SCRIPTS + "/prove"))
            has = [option for line in read(f"{ROOT}/tests/{file}").splitlines()
                   if "subprocess" not in line for option in re.findall('"(--[a-z-]+)"', line)]
            self.assertEqual(sorted(set(has)), sorted(re.findall("--[a-z-]+", takes[1])), mode)

    def test_broken_promise(self):
        """Of prove 1 is that only; wrong options are 64, what was not run is 77."""
        place = self.tree + "/build-prove/tests/stores/file"
        os.makedirs(place)
        write(place + "/file_prove", "#!/bin/sh\nexit $CODE\n", 0o700)
        for code, status, line in (("0", 0, ""), ("3", 1, "a promise was broken, see above"),
                                   ("64", 64, ""), ("77", 77, "not all of it was run, see above")):
            done = self.tool("prove contend", env={"CODE": code}, wanted=status)
            said = re.findall("(?m)^scripts/prove: (.*)", done.out + done.err)
            self.assertEqual([line] if line else [], [text for text in said if "see" in text])
        self.assertIn("--build build-prove --target file_prove", self.builds())


class Waiting(Case):
    """Tests of scripts/test that wait, while others run."""

    def setUp(self):
        super().setUp()
        self.tree_of_tests()
        self.stand_in("ctest", CTEST)
        write(self.tree + "/scripts/check", "#!/bin/sh\n", 0o700)

    def test_interrupt(self):
        """It ends them, too."""
        run = Terminal(self, "--rest", dlock=self.tree + "/scripts/test")
        for name in "defaults", "build-asan":
            run.until(f"the tests of {name}", lambda name=name: read("bin/ctest." + name))
        run.type("\x03").end(-signal.SIGINT)

    def test_build_fails(self):
        """That ends them."""
        self.stand_in("cmake", """#!/bin/sh
case $* in
  *build-asan*)
    until [ -s "${0%/*}/ctest.defaults" ]; do sleep 0.02; done
    exit 1
    ;;
esac
""")
        self.program(self.tree + "/scripts/test", "--rest", wanted=1)
        within("a test that waits ends", lambda: not alive(int(read("bin/ctest.defaults"))))


harness.main()
