#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several "hosts" whose cron fires `dlock run --key TICK OPTION... -- job`.

    cron_hosts.py [--hosts 8] [--ticks N] DLOCK OPTION...

Each tick has a key of its own, so a busy machine may take its time. All hosts but one come at once,
in an order that is left to the machine; the last has a slow clock and comes when the others have
their answers. Prints one JSON object: how often the job ran in each tick, and all statuses.
"""
import argparse
import json
import os
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--hosts", type=int, default=8)
parser.add_argument("--ticks", type=int, default=200)
parser.add_argument("dlock")
parser.add_argument("options", nargs=argparse.REMAINDER)
a = parser.parse_args()


def fire(key, ran):
    return subprocess.Popen(
        [a.dlock, "run", "--key", key, *a.options, "--", "sh", "-c", 'echo >>"$0"', ran],
        stdin=subprocess.DEVNULL)


runs, statuses = [], set()
with tempfile.TemporaryDirectory(prefix="dlock.") as directory:
    for tick in range(a.ticks):
        ran = f"{directory}/{tick}"
        together = [fire(f"tick{tick}", ran) for _ in range(a.hosts - 1)]
        statuses.update(host.wait() for host in together)
        statuses.add(fire(f"tick{tick}", ran).wait())
        runs.append(os.path.getsize(ran) if os.path.exists(ran) else 0)
print(json.dumps({"runs": runs, "statuses": sorted(statuses)}))
