#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""under_kazoo.py HOST:PORT KEY TIMEOUT JOB...: runs JOB under the Lock of kazoo, again and again.

As soon as the listener hears that the connection is SUSPENDED or LOST, the job is killed and this
program ends.
"""
import os
import subprocess
import sys
import threading

from kazoo.client import KazooClient, KazooState

job = None
starting = threading.Lock()


def state_changed(state):
    if state != KazooState.CONNECTED:
        with starting:
            if job:
                job.kill()
            os._exit(1)


client = KazooClient(sys.argv[1], timeout=float(sys.argv[3]))
client.start(timeout=30)
client.add_listener(state_changed)
lock = client.Lock("/locks/" + sys.argv[2], str(os.getpid()))
while True:
    with lock:
        with starting:
            job = subprocess.Popen(sys.argv[4:])
        job.wait()
