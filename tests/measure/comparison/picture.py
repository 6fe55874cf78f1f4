#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the picture of the README from a measurement: two clients want one lock in etcd, and the
program that holds it for the first client is stopped for 15 s.

usage: picture.py DLOCK FILE.svg

Measures `etcdctl lock` and `dlock run` at the same time, each on a server of its own, with a ttl of
10 s. A job lives for 25 s and records every 5 ms that it is alive, so the picture shows when jobs
ran, whatever the tools say. Exit status 1: jobs overlapped under dlock.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

import measure
import tools
from cell import boottime
from store import die_with_parent

TTL, HOLD, STOPPED_FOR, END = 10, 25, 15, 45  # seconds
FIRST = 3  # seconds that the first job runs before its wrapper is stopped
NAME, LEFT, SCALE, ROW = 96, 112, 13, 26  # the place of the bars
CLIENTS = "A", "B"


def job(records, seconds):
    """A client's job."""
    with open(records, "a", buffering=1) as out:
        began, pid = boottime(), os.getpid()
        out.write("start %d %d %s %d\n" % (pid, began, os.environ["CLIENT"], seconds * 1000))
        while boottime() - began < seconds * 1e9:
            time.sleep(0.005)
            out.write("alive %d %d\n" % (pid, boottime()))


class Subject:
    """One tool with its two clients."""

    def __init__(self, tool, directory):
        self.name = tool.name
        self.path = directory + "/" + tool.name.replace(" ", "-")
        open(self.path, "w").close()
        self.records = measure.Records(self.path)
        command = [sys.executable, os.path.abspath(__file__), "job", self.path, str(HOLD)]
        self.argv = tool.command("picture", command)
        self.clients = []

    def start(self, client):
        self.clients.append(subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "CLIENT": client},
            preexec_fn=die_with_parent))

    def started(self):
        return bool(self.records.read().children)

    def measured(self):
        """[(client, from, to)] in seconds since the first job began."""
        children = self.records.read().children
        return [(c.client, (c.start - children[0].start) / 1e9, (c.last - children[0].start) / 1e9)
                for c in children]

    def end(self):
        """Ends the clients, and the jobs that outlive them."""
        for client in self.clients:
            client.send_signal(signal.SIGCONT)
            client.terminate()
        for client in self.clients:
            client.wait(30)
        for child in self.records.read().children:
            try:
                with open("/proc/%d/cmdline" % child.pid) as line:
                    if self.path in line.read().split("\0"):
                        os.kill(child.pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended


def run(dlock, directory):
    """[(tool, stopped at, [(client, from, to)])]"""
    class DlockEtcd(tools.Dlock):
        name, store, ttl = "dlock run", "etcd", TTL

    class Etcdctl(tools.Etcdctl):
        ttl = TTL

    adapters = [kind(os.path.join(directory, name), dlock)
                for name, kind in (("e", Etcdctl), ("d", DlockEtcd))]
    subjects = [Subject(tool, directory) for tool in adapters]
    try:
        for client in CLIENTS:
            for subject in subjects:
                subject.start(client)
            until = time.monotonic() + 30
            while not all(subject.started() for subject in subjects):
                if time.monotonic() > until:
                    sys.exit("picture.py: no job began within 30 s")
                time.sleep(0.02)
        time.sleep(FIRST)
        stopped = []
        for subject in subjects:
            subject.clients[0].send_signal(signal.SIGSTOP)
            stopped.append((boottime() - subject.records.children[0].start) / 1e9)
        time.sleep(STOPPED_FOR)
        for subject in subjects:
            subject.clients[0].send_signal(signal.SIGCONT)
        time.sleep(END - FIRST - STOPPED_FOR)
        return [(subject.name, at, subject.measured()) for subject, at in zip(subjects, stopped)]
    finally:
        for subject in subjects:
            subject.end()
        for tool in adapters:
            tool.server.end()


def both(jobs):
    """[(from, to)]: when two jobs were alive."""
    return [(max(a[1], b[1]), min(a[2], b[2])) for n, a in enumerate(jobs) for b in jobs[n + 1:]
            if max(a[1], b[1]) < min(a[2], b[2])]


def bar(start, end, y, height, style):
    return '<rect x="%.1f" y="%d" width="%.1f" height="%d" class="%s"/>' % (
        LEFT + start * SCALE, y, (end - start) * SCALE, height, style)


def text(x, y, words, style="t"):
    return '<text x="%.1f" y="%d" class="%s">%s</text>' % (x, y, style, words)


def draw(rows):
    """The picture; `rows` is what run() returns."""
    width, y, parts = LEFT + END * SCALE + 16, 8, []
    for name, stopped, jobs in rows:
        twice = both(jobs)
        said = ("<tspan class='bad'>two jobs at once for %.1f s</tspan>" % sum(
            b - a for a, b in twice) if twice else "never two jobs at once")
        parts.append(text(8, y + 18, "<tspan class='b'>%s</tspan>: %s" % (name, said)))
        y += 28
        parts.append(bar(stopped, stopped + STOPPED_FOR, y, 2 * ROW + 16, "stop"))
        parts.append(text(LEFT + stopped * SCALE + 4, y + 12, "%s of A is stopped" % name, "s"))
        y += 16
        for a, b in twice:
            parts.append(bar(a, b, y, 2 * ROW, "twice"))
        for n, client in enumerate(CLIENTS):
            parts.append(text(8, y + n * ROW + 17, "job of " + client))
            for who, start, end in jobs:
                if who == client:
                    parts.append(bar(start, min(end, END), y + n * ROW + 4, ROW - 8, "job"))
        y += 2 * ROW + 10
    for at in range(0, END + 1, 5):
        parts.append(text(LEFT + at * SCALE, y + 12, "%d s" % at, "m"))
    y += 20
    style = ("text{font:14px sans-serif;fill:#222}.b{font-weight:bold}.s,.m{font-size:11px}"
             ".s{fill:#555}.m{text-anchor:middle}.bad{fill:#b00020;font-weight:bold}"
             ".stop{fill:#e4e4e4}.twice{fill:#f6b8bf}.job{fill:#2f6f9f}")
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
            'role="img">\n<title>When the jobs of two clients ran</title>\n<style>%s</style>\n'
            '<rect width="100%%" height="100%%" fill="#fff"/>\n%s\n</svg>\n'
            % (width, y, width, y, style, "\n".join(parts)))


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "job":
        return job(sys.argv[2], int(sys.argv[3]))
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="dlock-picture.") as directory:
        rows = run(os.path.abspath(sys.argv[1]), directory)
    with open(sys.argv[2], "w") as out:
        out.write(draw(rows))
    for name, _, jobs in rows:
        print(name, *("%s %.1f-%.1f s" % one for one in jobs), sep="; ")
    return int(any(both(jobs) for name, _, jobs in rows if name.startswith("dlock")))


if __name__ == "__main__":
    sys.exit(main())
