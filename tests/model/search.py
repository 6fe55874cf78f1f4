# SPDX-License-Identifier: Apache-2.0
"""Searches the model of the guards (guards.pml): every schedule of each variant.

    search.py            all variants: states, seconds, result
    search.py NAME...    these, with the shortest trail to a violation, as numbered steps

Exit status 77: spin or gcc is not installed (1 with CI=true)."""
import os, re, shutil, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["D1", "G1", "D2", "G2", "M", "X", "Y", "F", "init", "nobody"]

INNER_FREE = "the inner lock is free, and a member lives"
OUTER_FREE = "the outer lock is free, and a member lives"
STAYS = "the inner lock stays held for no job"
KILLED = "no member of the job, and killed"
# What is defined, and what must be found.
VARIANTS = {
    "two faults": ("FAULTS=2", None),
    "spares": ("SPARES", INNER_FREE),
    "spares, no Backstop": ("SPARES PATIENT", None),
    "not to dlock": ("NOT_TO_DLOCK", INNER_FREE),
    "not to guard": ("NOT_TO_GUARD", INNER_FREE),
    "late": ("LATE", INNER_FREE),
    "goes without": ("GOES_WITHOUT", INNER_FREE),
    "pulled": ("PULLED", INNER_FREE),
    "refuses gone": ("REFUSES_GONE", INNER_FREE),
    "end releases": ("END_RELEASES", INNER_FREE),
    "gone releases": ("GONE_RELEASES", INNER_FREE),
    "program releases": ("PROGRAM_RELEASES", INNER_FREE),
    "early dead": ("EARLY_DEAD", INNER_FREE),
    "never reads": ("NEVER_READS", STAYS),
    "implicit": ("IMPLICIT", STAYS),
    "dlock alone": ("DLOCK_ALONE", OUTER_FREE),
    "kills all": ("KILLS_ALL", KILLED),
}


def output_of(directory, *command):
    done = subprocess.run(command, cwd=directory, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def trail(directory, defines):
    _, text = output_of(directory, "spin", "-t", "-B", *defines, "guards.pml")
    steps = [re.sub(r"<(\d)>", lambda m: NAMES[int(m[1])], line.strip())
             for line in text.splitlines() if line[:1].isspace()]
    return [step for step in steps if step]


def search(name):
    """States, seconds, what was found (None: nothing), the trail; or an Exception."""
    words, expected = VARIANTS[name]
    defines = ["-D" + word for word in words.split()]
    with tempfile.TemporaryDirectory(prefix="dlock.") as directory:
        shutil.copy(os.path.join(HERE, "guards.pml"), directory)
        # Breadth first finds the shortest trail, and a violation long before all is searched. What
        # is searched completely is worth the time of an optimiser.
        how, table = (["-O0", "-DBFS"], "-w18") if expected else (["-O1"], "-w22")
        began = time.monotonic()
        for command in (["spin", "-a", *defines, "guards.pml"],
                        ["gcc", "-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=4096", *how, "-o", "pan",
                         "pan.c"]):
            status, said = output_of(directory, *command)
            if status != 0:
                raise RuntimeError(f"{command[0]}: {said}")
        _, said = output_of(directory, "./pan", "-m1000", table)
        seconds = time.monotonic() - began
        errors = re.search(r"errors: (\d+)", said)
        states = re.search(r"(\d+) states, stored", said)
        unfinished = re.search(r"not completed|depth too small|out of memory", said)
        if not errors or not states or (unfinished and errors[1] == "0"):
            raise RuntimeError(said)
        if errors[1] == "0":
            return int(states[1]), seconds, None, []
        steps = trail(directory, defines)
        words_found = [s for s in steps if s.startswith("violated: ")]
        found = words_found[-1].removeprefix("violated: ") if words_found else said
        return int(states[1]), seconds, found, steps


def main(wanted):
    for tool in ("spin", "gcc"):
        if not shutil.which(tool):
            print(f"skipped: model.guards: {tool} is not installed", flush=True)
            return 1 if os.environ.get("CI") == "true" else 77
    unknown = [name for name in wanted if name not in VARIANTS]
    if unknown:
        print(f"no variant {unknown[0]!r}, but: " + ", ".join(VARIANTS))
        return 64
    names = wanted or list(VARIANTS)
    good = True
    print(f"{'variant':20} {'states':>9} {'seconds':>8}  result", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, result in zip(names, pool.map(attempt, names)):
            if isinstance(result, Exception):
                good = False
                print(f"{name:20} FAILED: {result}", flush=True)
                continue
            states, seconds, found, steps = result
            right = found == VARIANTS[name][1]
            good = good and right
            said = f"found: {found}" if found else "every schedule searched, no violation"
            print(f"{name:20} {states:9} {seconds:8.1f}  {'' if right else 'FAILED: '}{said}",
                  flush=True)
            if wanted or not right:
                for number, step in enumerate(steps, 1):
                    print(f"    {number:2}. {step}")
    return 0 if good else 1


def attempt(name):
    try:
        return search(name)
    except Exception as e:  # pylint: disable=broad-except
        return e


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
