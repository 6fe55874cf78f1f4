# SPDX-License-Identifier: Apache-2.0
"""The completions that the build generates. One bash completes all lines."""
import os, re, shlex, shutil, subprocess, tempfile, unittest
import harness
from harness import DLOCK, ROOT, read, write

made = os.path.dirname(DLOCK) + "/completions"
# `completed LINE NUMBER WORD...` prints what the word of this number can become, after what bash is
# told of it.
COMPLETED = """
source "$0"
_dlock_patience=60s
compopt() { echo "$*"; }
completed() {
  COMP_LINE=$1 COMP_CWORD=$2 COMP_WORDS=("$DLOCK" "${@:3}")
  _dlock || :
  printf '%s\\n' "${COMPREPLY[@]}"
  printf '\\0'
}
"""


def setUpModule():
    """They are of this dlock."""
    global made
    file = made + "/dlock"
    if not os.path.exists(file) or os.path.getmtime(file) < os.path.getmtime(DLOCK):
        made = tempfile.mkdtemp(prefix="dlock.")
        unittest.addModuleCleanup(shutil.rmtree, made)
        subprocess.run([ROOT + "/scripts/completions/generate", DLOCK, made], check=True)


class Completion(harness.Case):
    bound = 4 * harness.BOUND  # of a bash that starts hundreds of programs

    def test_bash(self):
        """Schemes, the recipes of one backend, keys, profiles and files."""
        for key in "nightly", "no$(touch expanded)", "other":
            self.acquired("--key", key)
        far = f"file:{self.dir}/elsewhere"
        self.dlock("acquire", "-b", far, "--key", "far")
        write("fleet.toml", f'[profile.far]\nbackend = "{far}"\n[profile.fast]\n')
        os.makedirs("xdg/dlock")
        write("xdg/dlock/config.toml", '  [profile."weekly"]\nttl = "9s"\n')
        os.mkdir("some where")
        write("somefile")
        rows = [
            ("he", ["help"]), ("help rel", ["release"]), ("help redi", ["redis"]),
            ("run -b fil", ["-o nospace", "file:"]),
            ("run -b file:/x --recipe ''", ["lease", "flock"]), ("run --recipe = fl", ["flock"]),
            ("run --desc", ["--descendants"]), ("release --key ni", ["nightly"]),
            *((verb + " ot", ["other"]) for verb in ("inspect", "acquire", "renew", "release",
                                                     "check")),
            ("run ot", [""]), ("release --key no", [r"no\$\(touch\ expanded\)"]),
            ("release -b redis://127.0.0.1:1 --key ''", [""]),
            # the store that the line names
            (f"release -b {far} --key ''", ["far"]),
            (f"release \"--backend='{far}'\" --key ''", ["far"]),
            ("release --config fleet.toml --profile far --key ''", ["far"]),
            ("run --profile w", ["weekly"]),
            ("run --config fleet.toml --profile fa", ["far", "fast"]),
            # a directory is completed without a space after it
            ("run --status some", ["-o filenames", "some where", "somefile"])]
        script = COMPLETED
        for line, _ in rows:
            words = shlex.split(line)
            if "--profile far" in line:
                script += "unset DLOCK_BACKEND\n"
            script += shlex.join(["completed", "dlock " + " ".join(words), str(len(words)), *words])
            script += "\n"
        # bash breaks words at = and :
        rows.append(("run -b file:PLACE/som",
                     ["-o filenames -o nospace", self.dir + "/some where"]))
        script += 'completed "dlock run -b file:$PWD/som" 5 run -b file : "$PWD/som"\n'
        done = self.program("bash", "-c", script, made + "/dlock", env={"XDG_CONFIG_HOME": "xdg"})
        shown = [text[:-1].split("\n") for text in done.out.split("\0")[:-1]]
        self.assertEqual(len(rows), len(shown), done)
        for (line, wanted), words in zip(rows, shown):
            with self.subTest(line):
                self.assertEqual(sorted(wanted), sorted(words))
        self.assertFalse(os.path.exists("expanded"))

    def test_options(self):
        """Those of each command are those of --help=all, in all three shells, whose lines these
        are."""
        bash, zsh, fish = (read(f"{made}/{name}") for name in ("dlock", "_dlock", "dlock.fish"))
        for shell, name in ("bash", "dlock"), ("zsh", "_dlock"), ("fish", "dlock.fish"):
            if shutil.which(shell):
                self.program(shell, "-n", f"{made}/{name}")
        commands = re.search(r"(?ms)^Commands:\n(.*?)^$", self.dlock("--help").out)[1]
        for verb in re.findall(r"(?m)^  ([a-z]+) ", commands):
            listed = re.findall(r"(?m)^ +(?:-., )?--([a-z-]+)",
                                self.dlock(verb, "--help=all").out)
            self.assertTrue(listed, verb)
            words = re.search(rf"(?m)^    {verb}\) mapfile .*compgen -W '([^']*)'", bash)[1]
            part = re.search(rf"(?ms)^    {verb}\)$(.*?);;", zsh)[1]
            have = {"bash": re.findall(r"(?:^| )--(\S+)", words),
                    "zsh": re.findall(r"(?m)^ *'\*?--([a-z-]+)", part),
                    "fish": re.findall("(?m)^complete -c dlock -n '__fish_seen_subcommand_from "
                                       rf"{verb}' -l ([a-z-]+) ", fish)}
            for shell, options in have.items():
                with self.subTest(verb, shell=shell):
                    self.assertEqual(sorted(listed), sorted(options))


harness.main()
