#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many `dlock run` at once, on each backend: what they cost, and how fast the lock goes round.

usage: many.py DLOCK [--count N,...] [--backend NAME,...] [--shape one,keys,cron,splay]
               [--ttl S] [--idle S] [--splay S] [--seconds S] [--json FILE] [--keep]

  one    N runs wait for one key, which then goes from one to the next; their job is `true`
  keys   N runs hold a key each; then for each key another one waits; then all jobs end at once
  cron   N runs of a key each, all started as fast as this host can
  splay  the same with --splay
A cell that is not done after --seconds is cut off and says how far it came. Exit status 1: a run
failed, or was not served, or one key had two holders at a time.
"""
import argparse
import itertools
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support")]

import report
import servers
from fleet import TASKS_OF_RUN, WAIT, Fleet, available_mib, now, run_memory, tasks_free

SHAPES = ("one", "keys", "cron", "splay")
SPARE_TASKS = 3000  # left to the rest of the host
WAITING_SAID = 0.5  # seconds after which a waiter says that it waits


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else None


def ms(seconds):
    return None if seconds is None else round(seconds * 1000, 2)


def difference(after, before, names=("cpu_s", "requests", "writes")):
    return {n: after[n] - before[n] for n in names if n in after}


class Cell:
    """One shape on one backend with so many."""

    def __init__(self, options, backend, name, shape, count):
        self.options, self.backend, self.shape, self.count = options, backend, shape, count
        self.url = backend.url()
        self.run_options = ["--ttl", "%ds" % options.ttl, "-w", WAIT]
        self.fleet = Fleet(options.dlock, backend.dir + "/stderr")
        self.figures = {
            "backend": name,
            "shape": shape,
            "count": count,
            "load": os.getloadavg()[0],
            "notes": [],
        }

    def note(self, text):
        self.figures["notes"].append(text)

    def start(self, count, key, job=("/bin/true",), held=False, options=()):
        """key(i): of the i-th. Fewer than count where the kernel has no numbers for more tasks."""
        each = TASKS_OF_RUN + (1 if held else 0)
        fit = max(0, (tasks_free() - SPARE_TASKS) // each)
        if fit < count:
            self.note("%d of %d: kernel.pid_max" % (fit, count))
        chosen = min(count, fit)
        for i in range(chosen):
            self.fleet.start(self.url, key(i), [*self.run_options, *options], job, held)
        return chosen

    def reach(self, event, count):
        """Until so many events of that name, or all are done that could still say it."""
        there = self.fleet.said(event, count, self.options.seconds)
        if there < count:
            self.note("%d of %d %s, %s" % (there, count, event, self.fleet.last_words()))
        return there

    def idle(self):
        """What the server does while nothing happens, in a second."""
        before, began = self.backend.counters(), now()
        threading.Event().wait(self.options.idle)  # a measurement's time, not a wait for something
        took = now() - began
        done = difference(self.backend.counters(), before)
        return {n: v / took for n, v in done.items()}

    def held_twice(self):
        """Times at which a key was acquired before its last holder's job was dead."""
        open_keys, twice = set(), 0
        f = self.fleet
        for e in sorted(f.of("acquired") + f.of("job_dead"), key=lambda e: e["t"]):
            if e["event"] == "job_dead":
                open_keys.discard(e["key"])
            elif e["key"] in open_keys:
                twice += 1
            else:
                open_keys.add(e["key"])
        return twice

    def handoffs(self):
        """Seconds from the death of a holder's job to the next grant of its key, by time."""
        dead, taken = {}, []
        f = self.fleet
        for e in sorted(f.of("acquired") + f.of("job_dead"), key=lambda e: e["t"]):
            if e["event"] == "job_dead":
                dead[e["key"]] = e["t"]
            elif e["key"] in dead:
                taken.append(e["t"] - dead.pop(e["key"]))
        return taken

    def drain(self, expected):
        """All jobs end; each waiter gets its turn."""
        fig, f = self.figures, self.fleet
        before, began = self.backend.counters(), now()
        grants = f.counts["acquired"]
        f.end_jobs()
        self.reach("acquired", grants + expected)
        served = f.counts["acquired"] - grants
        done = difference(self.backend.counters(), before)
        f.all_ended(self.options.seconds)
        gaps = self.handoffs()
        last = max((e["t"] for e in f.of("acquired")), default=began)
        tenth = max(1, len(gaps) // 10)
        fig.update(
            served=served,
            grants_per_s=round(served / (last - began), 1) if served else 0,
            handoff_p50_ms=ms(quantile(gaps, 0.5)),
            handoff_p99_ms=ms(quantile(gaps, 0.99)),
            handoff_max_ms=ms(max(gaps, default=None)),
            # The queue is long at first and short at the end.
            handoff_first_ms=ms(quantile(gaps[:tenth], 0.5)),
            handoff_last_ms=ms(quantile(gaps[-tenth:], 0.5)),
        )
        if served:
            fig["per_grant"] = {n: round(v / served, 5) for n, v in done.items()}

    def arrive(self, count, key, event, said=0.0, **how):
        """Starts so many and waits for them; what one of them costs, held against before."""
        f = self.fleet
        before = self.backend.sizes()
        have, began = f.counts[event], now()
        started = self.start(count, key, **how)
        spawned = now() - began
        self.reach(event, have + started)
        there = f.counts[event] - have
        times = [e["t"] for e in f.of(event)][have:]
        fig = {
            "count": there,
            "spawned_s": round(spawned, 2),
            "all_there_s": round(max(times, default=began) - said - began, 2),
        }
        if not there:
            return fig
        after = self.backend.sizes()
        fig["load"] = os.getloadavg()[0]
        pss, tables = run_memory(list(f.started)[-started:])
        fig.update(client_pss_kib=pss, client_page_tables_kib=tables)
        for n in ("memory_kib", "rss_kib", "connections"):
            if n in after:
                fig["server_" + n] = round((after[n] - before[n]) / there, 2)
        fig["server_per_start"] = {
            n: round(v / there, 5) for n, v in difference(after, before).items()
        }
        return fig

    def one(self):
        self.fleet.start(self.url, "one", self.run_options, ["/bin/cat"], held=True)
        self.reach("acquired", 1)
        fig = self.figures
        fig["waiter"] = self.arrive(self.count, lambda i: "one", "waiting", WAITING_SAID)
        waiting = fig["waiter"]["count"]
        fig["waiter"]["per_s"] = {n: round(v / max(1, waiting), 5) for n, v in self.idle().items()}
        self.drain(waiting)

    def keys(self):
        fig = self.figures
        key = "keys%d".__mod__
        fig["held"] = self.arrive(self.count, key, "acquired", job=["/bin/cat"], held=True)
        held = fig["held"]["count"]
        fig["held"]["per_s"] = {n: round(v / max(1, held), 5) for n, v in self.idle().items()}
        fig["waiter"] = self.arrive(held, key, "waiting", WAITING_SAID)
        waiting = fig["waiter"]["count"]
        both = self.idle()
        fig["waiter"]["per_s"] = {
            n: round((v - fig["held"]["per_s"][n] * held) / max(1, waiting), 5)
            for n, v in both.items()
        }
        self.drain(waiting)

    def storm(self, key, options=()):
        fig, f = self.figures, self.fleet
        before, began = self.backend.counters(), now()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak = {"connections": 0}
        over = threading.Event()

        def watch():
            last, at = before, began
            while not over.wait(1):
                try:
                    seen, t = self.backend.counters(), now()
                except servers.SILENT:
                    continue  # too busy to say
                done = difference(seen, last)
                peak["connections"] = max(peak["connections"], seen.get("connections", 0))
                for n, v in done.items():
                    peak[n + "_per_s"] = max(peak.get(n + "_per_s", 0), v / (t - at))
                last, at = seen, t

        watcher = threading.Thread(target=watch)
        if self.backend.server:
            watcher.start()
        try:
            started = self.start(self.count, key, options=options)
            spawned = now() - began
            f.all_ended(self.options.seconds)
        finally:
            over.set()
            if self.backend.server:
                watcher.join()
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = difference(self.backend.counters(), before)
        asked = {k: t for k, t in f.started.values()}
        acquired = f.of("acquired")
        waits = [e["t"] - asked[e["key"]] for e in acquired]
        second = [
            sum(1 for _ in of)
            for _, of in itertools.groupby(acquired, lambda e: int(e["t"] - began))
        ]
        fig.update(
            served=len(acquired),
            spawned_s=round(spawned, 2),
            all_done_s=round(max((e["t"] for e in f.of("exit")), default=began) - began, 2),
            starts_p50_ms=ms(quantile(waits, 0.5)),
            starts_p99_ms=ms(quantile(waits, 0.99)),
            starts_max_ms=ms(max(waits, default=None)),
            busiest_second=max(second, default=0),
            client_cpu_ms=ms(
                (ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime)
                / max(1, started)
            ),
            peak={n: round(v, 2) for n, v in peak.items()},
            per_grant={n: round(v / max(1, len(acquired)), 5) for n, v in done.items()},
        )

    def cron(self):
        self.storm("cron%d".__mod__)

    def splay(self):
        self.figures["splay_s"] = self.options.splay
        self.storm("splay%d".__mod__, ["--splay", "%ds" % self.options.splay])

    def run(self):
        try:
            getattr(self, self.shape)()
            left = len(self.fleet.alive())
            if left:
                self.note("%d cut off" % left)
            return self.figures
        finally:
            self.fleet.close()
            self.figures["failures"] = dict(self.fleet.failures())
            self.figures["held_twice"] = self.held_twice()


def words(of):
    def parse(text):
        chosen = text.split(",")
        if not set(chosen) <= set(of):
            raise argparse.ArgumentTypeError("one or more of " + ", ".join(of))
        return chosen

    return parse


def limits():
    with open("/proc/sys/kernel/pid_max") as f:
        pid_max = f.read().strip()
    return "ulimit -n %d, kernel.pid_max %s, %d MiB available, %d CPUs, Linux %s" % (
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        pid_max,
        available_mib(),
        os.cpu_count(),
        platform.release(),
    )


def measure(options, directory, rows):
    for name in options.backend:
        backend = servers.ALL[name](os.path.join(directory, name), options.clients)
        try:
            said = backend.limits()
            print("\n%s%s" % (name, ": " + said if said else ""), flush=True)
            for count, shape in itertools.product(options.count, options.shape):
                cell = Cell(options, backend, name, shape, count)
                try:
                    rows.append({**cell.run(), "limits": said})
                except servers.SILENT as e:
                    # The server does not answer, or is gone: what comes next would tell nothing.
                    cell.note("the server does not say how it is: %s" % e)
                    rows.append({"served": 0, **cell.figures, "limits": said})
                print(report.line(rows[-1]), flush=True)
                if not rows[-1]["served"]:
                    break
        finally:
            backend.close()
            if not options.keep:
                shutil.rmtree(backend.dir, ignore_errors=True)


def numbers(text):
    try:
        return [int(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError("numbers, with commas between them")


def main():
    p = argparse.ArgumentParser(prog="many.py")
    p.error = lambda what: p.exit(64, "many.py: %s\n" % what)
    p.add_argument("dlock", type=os.path.abspath)
    p.add_argument("--count", type=numbers, default=[1000, 5000])
    p.add_argument("--backend", type=words(servers.ALL), default=list(servers.ALL))
    p.add_argument("--shape", type=words(SHAPES), default=list(SHAPES))
    p.add_argument("--ttl", type=int, default=30)
    p.add_argument("--idle", type=int, default=10, help="seconds of looking at those who wait")
    p.add_argument("--splay", type=int, default=60)
    p.add_argument("--seconds", type=int, default=240, help="for each step of a cell, at most")
    p.add_argument("--json")
    p.add_argument("--keep", action="store_true", help="the directory with the logs of dlock")
    options = p.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options.clients = min(4 * max(options.count) + 1000, hard - 100)
    made = subprocess.run([options.dlock, "--version"], capture_output=True, text=True).stdout
    made = {"dlock": made.splitlines()[:2], "host": limits()}
    print("%s; %s" % (", ".join(made["dlock"]), made["host"]))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = tempfile.mkdtemp(prefix="dlock-many.", dir=memory)
    os.chmod(directory, 0o711)  # PostgreSQL runs as a user of its own
    os.environ.update(TMPDIR=directory, _JAVA_OPTIONS="-Xmx3g")  # of the servers
    rows = []
    for number in (signal.SIGTERM, signal.SIGINT):  # INT is ignored in the background
        signal.signal(number, signal.default_int_handler)
    try:
        measure(options, directory, rows)
    finally:
        if options.keep:
            print("logs: " + directory, file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        if options.json:
            with open(options.json, "w") as f:
                json.dump({"version": 1, **made, "rows": rows}, f, indent=1)
    print("\n".join(report.tables(rows)))
    bad = [r for r in rows if r["failures"] or r["held_twice"] or r["notes"]]
    sys.exit(1 if bad else 0)


main()
