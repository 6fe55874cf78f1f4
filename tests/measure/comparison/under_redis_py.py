#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""under_redis_py.py PORT KEY TTL JOB...: runs JOB under the Lock of redis-py, again and again.

Lock renews nothing by itself. reacquire() is what it has for that; here it is called each third of
the ttl, and the job is killed when it fails or has no answer by then.
"""
import subprocess
import sys

import redis
from redis.exceptions import LockError, RedisError

port, key, ttl = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
client = redis.Redis(port=port, socket_timeout=ttl / 3)
while True:
    with client.lock(key, timeout=ttl) as lock:
        job = subprocess.Popen(sys.argv[4:])
        while job.returncode is None:
            try:
                job.wait(ttl / 3)
            except subprocess.TimeoutExpired:
                try:
                    lock.reacquire()
                except (LockError, RedisError):
                    job.kill()
                    job.wait()
                    raise
