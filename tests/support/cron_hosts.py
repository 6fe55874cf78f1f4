#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several "hosts" whose cron fires `dlock run OPTIONS -- job` each period, with clocks that differ
by up to SPREAD.

    cron_hosts.py [--hosts 8] [--ticks N] [--period MS] [--spread MS] [--window MS]
                  DLOCK DIRECTORY OPTION...

Prints one JSON object: how many jobs ran in how many ticks. Each host is late by an offset of its
own, drawn anew for each tick; host 0 is punctual. A tick counts only if all of its hosts had their
answer within WINDOW of its beginning, because on a machine that is busy otherwise they are further
apart than cron and NTP let real hosts be; it is repeated, and counted as late.
"""
import argparse
import json
import random
import subprocess
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--hosts", type=int, default=8)
parser.add_argument("--ticks", type=int, default=200)
parser.add_argument("--period", type=float, default=500)
parser.add_argument("--spread", type=float, default=100)
parser.add_argument("--window", type=float, default=240)
parser.add_argument("dlock")
parser.add_argument("directory")
parser.add_argument("options", nargs=argparse.REMAINDER)
a = parser.parse_args()

rng = random.Random(7)
ran_file = a.directory + "/ran"
statuses = {}
lock = threading.Lock()


def fire(tick, at):
    time.sleep(max(0, at - time.monotonic()))
    job = ["sh", "-c", 'echo "$1" >>"$2"; exec sleep 0.005', "sh", str(tick), ran_file]
    status = subprocess.run([a.dlock, "run", *a.options, "--", *job],
                            stdin=subprocess.DEVNULL).returncode
    with lock:
        statuses[status] = statuses.get(status, 0) + 1


open(ran_file, "w").close()
good, late, tick = [], 0, 0
begin = time.monotonic()
while len(good) < a.ticks and late <= a.ticks:
    offsets = [0.0] + [rng.uniform(0, a.spread / 1000) for _ in range(a.hosts - 1)]
    hosts = [threading.Thread(target=fire, args=(tick, begin + offset)) for offset in offsets]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    if time.monotonic() - begin <= a.window / 1000:
        good.append(tick)
    else:
        late += 1
        time.sleep(2 * a.period / 1000)  # everything that it left has expired
    tick += 1
    # A period after the last answer: what this tick left is over then, however late it was.
    begin = time.monotonic() + a.period / 1000
    time.sleep(a.period / 1000)

runs = {}
for line in open(ran_file):
    runs[int(line)] = runs.get(int(line), 0) + 1
counts = [runs.get(t, 0) for t in good]
print(json.dumps({
    "ticks": len(good), "runs": sum(counts), "not_exactly_once": sum(c != 1 for c in counts),
    "late_ticks": late,
    "statuses": {str(k): v for k, v in sorted(statuses.items())},
}))
