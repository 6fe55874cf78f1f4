# SPDX-License-Identifier: Apache-2.0
"""The manual and --help list the same options, exit statuses, variables and columns."""
import glob, os, re, shutil
import harness
from harness import ROOT, read

COMMANDS = "run acquire renew release check fence inspect bench config".split()


def page(name):
    return read(f"{ROOT}/man/{name}")


def between(text, first, last):
    """Of a line that matches `first` to the next one that matches `last`, without these."""
    return re.search(rf"(?ms)^{first}[^\n]*\n(.*?)^{last}", text)[1]


def formatted(path, case):
    """As man shows it."""
    return re.sub(".\b", "", case.program("mandoc", "-T", "ascii", "-I", "os=dlock", path).out)


def options_of_pages(*names):
    """`.It Fl w , Fl -wait Ns = Ns Ar D` -> `-w, --wait=D`, without --version (dlock itself)."""
    return [(short and f"-{short}, ") + "--" + long.replace(" Ns = Ns Ar ", "=")
            for name in names
            for short, long in re.findall(r"(?m)^\.It (?:Fl (\w) , )?Fl -(.*)", page(name))
            if long != "version"]


class Manual(harness.Case):
    helps = {}

    def help(self, *words):
        if words not in self.helps:
            self.helps[words] = self.dlock(*words).out
        return self.helps[words]

    def options_of_help(self, command):
        return [short + long for short, long in re.findall(
            r"(?m)^ +(-., )?(--[a-z-]+(?:=[^ \n]*)?)", self.help(command, "--help=all"))]

    def test_options(self):
        """Each page has those of --help with their arguments, and no others."""
        for command in COMMANDS:
            common = options_of_pages("dlock.1", "dlock-faults.7")
            of_help = self.options_of_help(command)
            if command == "fence":  # has no backend
                common = [option for option in common if option in of_help]
            if command in ("bench", "config"):
                common = [option for option in common if not option.startswith("--trace=")]
            with self.subTest(command):
                self.assertEqual(sorted(of_help),
                                 sorted(common + options_of_pages(f"dlock-{command}.1")))

    def test_commands(self):
        """Those of --help have a page that dlock(1) names."""
        of_help = between(self.help("--help"), "Commands:", "$")
        self.assertEqual(COMMANDS, re.findall("(?m)^  ([a-z]+) ", of_help))
        for command in COMMANDS:
            self.assertLine(rf"\.It Xr dlock-{command} 1", page("dlock.1"))

    def test_statuses(self):
        """dlock(1) and --help list the same."""
        text = self.help("--help")
        of_help = re.findall("(?m)^  ([0-9]+) ", text[text.index("\nExit status:"):])
        of_page = re.findall(r"(?m)^\.It (.*)", between(page("dlock.1"), r"\.Sh EXIT STATUS",
                                                       r"\.Sh EXAMPLES"))
        of_page = ", ".join(of_page).replace(r"\(en255", "").split(", ")
        self.assertEqual(sorted(of_help), sorted(of_page))

    def test_variables(self):
        """The options without one are those that dlock-config(1) names."""
        named = re.findall(r"(?m)^\.Fl (.*)", between(page("dlock-config.1"),
                                                      "There is no such variable", r"\.Pp"))
        without = set()
        for command in COMMANDS:
            variables = between(self.help(command, "--help=all"), "Environment", "$").split()
            for option in self.options_of_help(command):
                name = re.search("--([a-z-]+)", option)[1]
                if "DLOCK_" + name.upper().replace("-", "_") not in variables:
                    without.add(name)
        self.assertEqual(sorted(without), sorted(re.findall("-([a-z-]+)", " ".join(named))))

    def test_help_of_pages(self):
        """dlock help prints the pages of the backends, as man does."""
        pages = re.search("(?m)^Pages of the manual.*\n *(.*)", self.help("--help"))[1].split()
        self.assertEqual(sorted(os.path.basename(path)[6:-2] for path in glob.glob(
            ROOT + "/man/*.7")), sorted(pages))
        for name in pages:
            with self.subTest(name):
                done = self.dlock("help", name)
                self.assertEqual("", done.err)
                self.assertEqual(formatted(f"{ROOT}/man/dlock-{name}.7", self), done.out)
                self.assertLine(rf"\.(?:It )?Xr dlock-{name} 7(?: ,)?", page("dlock.1"))
        self.refused(64, "unknown command or page 'redsi'; did you mean redis? (dlock --help lists "
                     "the commands)", "help", "redsi")

    def test_recipes(self):
        """dlock-backends(7) says what each can do."""
        version = re.sub(r" \([^)]*\)", "", self.dlock("--version").out)
        built = {(family, recipe) for family, recipes in re.findall("(?m)^([a-z]+): (.*)", version)
                 for recipe in recipes.split(", ")}
        rows = re.findall(r"(?ms)^\.It ([^\n]*)\n(.*?)(?=^\.It|\Z)", between(
            page("dlock-backends.7"), r"\.Sh WHAT EACH RECIPE", r"\.El"))
        named = {tuple(recipe.split()): re.findall(r"\b[a-z][a-z-]*", can)
                 for recipes, can in rows for recipe in recipes.split(", ")}
        self.assertEqual(set(), built - set(named))
        hosts = {"file": "file:" + self.locks, "mysql": "mysql://127.0.0.1:1/db",
                 "postgresql": "postgresql://127.0.0.1:1/db",
                 "redlock": "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}
        for family, recipe in sorted(built):
            for what, line in (
                    ("s", "run --explain -c true -s"), ("limit", "run --explain -c true --limit 2"),
                    ("lock-delay", "run --explain -c true --lock-delay 1s --ttl 20s"),
                    ("once-per", "run --explain -c true --once-per 1h"),
                    ("revoke", "release --revoke"), ("acquire", "acquire -n")):
                with self.subTest(family, recipe=recipe, what=what):
                    done = self.dlock(*line.split(), "-q", "--connect-timeout", "50ms", "-b",
                                      hosts.get(family, f"{family}://127.0.0.1:1") +
                                      "?recipe=" + recipe, "--key", recipe, wanted=None)
                    self.assertEqual(what in named[family, recipe], done.status != 64, done)

    def test_columns(self):
        """dlock-inspect(1) names them."""
        of_help = self.dlock("inspect", "-o", "NONE", wanted=64).err
        of_page = re.findall(r"(?m)^\.Cm (.*)", between(page("dlock-inspect.1"), r"\.Ss Columns",
                                                        r"\.Sh"))
        self.assertEqual(
            sorted(of_help.partition("is not a column: ")[2].strip().split(", ")),
            sorted({word for word in " ".join(of_page).split() if re.fullmatch("[A-Z]{2,}", word)}))

    def test_tables(self):
        """They fit a terminal of 80 columns. Where a row is wider, groff breaks it in the middle,
        and no column stands below its name."""
        for path in glob.glob(ROOT + "/man/*.[17]"):
            with self.subTest(os.path.basename(path)):
                self.assertNotRegex(formatted(path, self), "(?m)^ {5}[^ ].{73}")

    def test_warnings(self):
        """man(1) shows the pages without one, as of a table that is wider than the terminal."""
        if not shutil.which("man"):
            harness.missing("man")
        for path in glob.glob(ROOT + "/man/*.[17]"):
            with self.subTest(os.path.basename(path)):
                done = self.program("man", "--warnings", "-E", "UTF-8", "-l", path,
                                    env={"MANWIDTH": "80", "MANPAGER": "cat"})
                self.assertEqual("", done.err)


harness.main()
