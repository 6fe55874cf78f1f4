#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tools that run a command under a lock, compared under faults: the same job, the same faults, in
one run.

usage: compare.py DLOCK JOB [--seconds N] [--tools T,...] [--scenarios S,...] [--no-alone]
                  [--json FILE] [--keep]

In each cell five clients of one tool want one lock all the time, and run JOB (job.cpp) under it.
The cells of a scenario run side by side, each tool with a server of its own. Each fault meets a job
that wants to hold for some time yet:
  paused     the wrapper around the job (dlock, etcdctl, flock, the program with the library) is
             stopped for ttl + 1 s, every 5 s
  killed     the wrapper is killed (-9), every 5 s
  frozen     the server is stopped for 10 s, after a quarter of the time and after five eighths
  restarted  the server is killed (-9) and started again, after a quarter of the time, and then
             every 20 s
Before the scenarios two paused cells run alone, one after the other, to show what running side by
side does. What is reported is what the jobs recorded (measure.py). Exit status 1: dlock's jobs
overlapped, lost an update, or hardly ran.
"""
import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile

import tools
from cell import CLIENTS, Cell

SCENARIOS = ("paused", "killed", "frozen", "restarted")
ALONE = (("dlock-redis", "paused"), ("etcdctl", "paused"))


def table(rows):
    heads = (
        "tool",
        "ttl",
        "faults",
        "grants",
        "overlap, ms",
        "overlaps",
        "lost updates",
        "orphans",
        "longest, ms",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for r in rows:
        ttl = "%d s" % r["ttl_s"] if r["ttl_s"] else "none"
        cells = (
            r["tool"],
            ttl,
            r["faults"],
            r["grants"],
            r["overlap_ms"],
            r["overlaps"],
            "%d of %d" % (r["lost_updates"], r["updates"]),
            r["orphans"],
            r["longest_orphan_ms"],
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


async def compare(options, directory):
    chosen = {
        name: tools.ALL[name](os.path.join(directory, name), options.dlock)
        for name in options.tools
    }
    numbers = iter(range(10**6))

    def cells(of):
        return [
            Cell(
                chosen[name],
                scenario,
                options.seconds,
                options.job,
                "%s/cell%d" % (directory, next(numbers)),
            )
            for name, scenario in of
        ]

    try:
        settling = max([getattr(t, "settling", 0) for t in chosen.values()])
        if settling:
            print(
                "%d s until dlock trusts a server that has just started" % settling,
                file=sys.stderr,
                flush=True,
            )
            await asyncio.sleep(settling)
        rows = []
        alone = [one for one in ALONE if one[0] in chosen and one[1] in options.scenarios]
        if alone and options.alone:
            rows.append([{**await cell.run(), "alone": True} for cell in cells(alone)])
            print("\npaused, %d s, each cell alone\n\n%s" % (options.seconds, table(rows[-1])))
        for scenario in sorted(options.scenarios, key=SCENARIOS.index):
            fit = [
                (name, scenario)
                for name, t in chosen.items()
                if t.server or scenario in ("paused", "killed")
            ]
            print("\n%s, %d s, %d cells side by side\n" % (scenario, options.seconds, len(fit)))
            rows.append(await asyncio.gather(*(c.run() for c in cells(fit))))
            print(table(rows[-1]), flush=True)
        return [r for some in rows for r in some]
    finally:
        for t in chosen.values():
            if t.server:
                t.server.end()


def failures(rows):
    for r in rows:
        if r["tool"].startswith("dlock"):
            if r["overlap_ms"] or r["overlaps"] or r["lost_updates"]:
                yield "%s, %s: overlap or lost update" % (r["tool"], r["scenario"])
            if r["grants"] < 3 or r["faults"] == 0:
                yield "%s, %s: %d grants, %d faults" % (
                    r["tool"],
                    r["scenario"],
                    r["grants"],
                    r["faults"],
                )


def words(of):
    def parse(text):
        chosen = text.split(",")
        if not set(chosen) <= set(of):
            raise argparse.ArgumentTypeError("one or more of " + ", ".join(of))
        return chosen

    return parse


def main():
    p = argparse.ArgumentParser(prog="compare.py")
    p.error = lambda what: p.exit(64, "compare.py: %s\n" % what)
    p.add_argument("dlock", type=os.path.abspath)
    p.add_argument("job", type=os.path.abspath)
    p.add_argument("--seconds", type=int, default=120, help="of each cell")
    p.add_argument("--tools", type=words(tools.ALL), default=list(tools.ALL))
    p.add_argument("--scenarios", type=words(SCENARIOS), default=list(SCENARIOS))
    p.add_argument("--no-alone", dest="alone", action="store_false")
    p.add_argument("--json")
    p.add_argument("--keep", action="store_true", help="the directory with the records")
    options = p.parse_args()
    directory = tempfile.mkdtemp(prefix="dlock-compare.")
    try:
        rows = asyncio.run(compare(options, directory))
    finally:
        if options.keep:
            print("records: " + directory, file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    made = {
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "versions": tools.versions(options.dlock),
    }
    print(
        "\n%d clients; Linux %s, %d CPUs; %s"
        % (CLIENTS, made["kernel"], made["cpus"], ", ".join(made["versions"]))
    )
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"version": 1, "clients": CLIENTS, **made, "rows": rows}, f, indent=1)
    broken = list(failures(rows))
    for what in broken:
        print("FAILED: " + what)
    sys.exit(1 if broken else 0)


main()
