# SPDX-License-Identifier: Apache-2.0
"""rate.py HOST:PORT SECONDS: how often kazoo's Lock is taken and released in a second, uncontended,
on one session."""
import sys
import time

from kazoo.client import KazooClient

client = KazooClient(sys.argv[1], timeout=10)
client.start()
lock = client.Lock("/kazoo-rate", "rate")
lock.acquire()
lock.release()
began = time.monotonic()
n = 0
while time.monotonic() < began + float(sys.argv[2]):  # no wait: it measures
    lock.acquire()
    lock.release()
    n += 1
print("kazoo's Lock: %.0f/s" % (n / (time.monotonic() - began)))
client.stop()
