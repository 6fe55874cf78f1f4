#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ports for the servers of tests, as server.cpp has them. As a program, for shell scripts: prints
one, and keeps it until the script ends."""
import random, signal, socket

names = []


def ports_of_servers():
    """None of those that the kernel gives to a bind to port 0 and to connections: another test
    could get that of a server that is not up yet, or is down for a while."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        low, high = map(int, file.read().split())
    for ports in range(10000, low), range(high + 1, 65536):
        if len(ports) > 1000:
            return ports
    return range(10000, 65536)  # the kernel's are nearly all


def free_port():
    """Nothing else gets it until this process ends, and with it the name."""
    ports = ports_of_servers()
    begin = random.randrange(len(ports))
    for port in *ports[begin:], *ports[:begin]:
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0dlock-test-port/{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            name.close()
            continue
        names.append(name)
        return port
    raise RuntimeError("no free port")


if __name__ == "__main__":
    from store import die_with_parent
    die_with_parent()
    print(free_port(), flush=True)
    signal.pause()
