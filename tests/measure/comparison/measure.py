# SPDX-License-Identifier: Apache-2.0
"""What the records of comparison_job say, whatever the tools said themselves."""
import collections

ORPHANED_NS = 100_000_000  # a child that outlives its wrapper by less than this is not counted


class Child:
    def __init__(self, pid, start, client, hold_ms):
        self.pid, self.start, self.client, self.hold_ms = pid, start, client, hold_ms
        self.last = start  # ns; last sign of life
        self.wrote = None  # the counter's value, once it has written it

    def rest_ms(self, now):
        """How long it still wants to hold."""
        return self.hold_ms - (now - self.start) / 1e6


class Records:
    """The records so far. read() takes what has been appended since."""

    def __init__(self, path):
        self.path, self.offset = path, 0
        self.children = []
        self.by_pid = {}
        self.last_write = 0  # the value that was written last

    def read(self, until=None):
        """Until: ns of CLOCK_BOOTTIME; what happened later is left out."""
        with open(self.path) as f:
            f.seek(self.offset)
            text = f.read()
        whole = text[: text.rfind("\n") + 1]
        self.offset += len(whole)
        for line in whole.splitlines():
            what, pid, at, *rest = line.split()
            at = int(at)
            if until is not None and at > until:
                continue
            if what == "start":
                self.by_pid[pid] = Child(int(pid), at, rest[0], int(rest[1]))
                self.children.append(self.by_pid[pid])
            else:
                child = self.by_pid[pid]
                child.last = max(child.last, at)
                if what == "wrote":
                    child.wrote = self.last_write = int(rest[0])
        return self

    def holder(self, now):
        """The child that started last, if it has shown life in the last 100 ms and is not done."""
        if self.children:
            child = self.children[-1]
            if child.wrote is None and now - child.last < 100_000_000:
                return child
        return None


def overlap(children):
    """(ms in which two or more were alive, number of such times)."""
    edges = sorted([(c.start, 1) for c in children] + [(c.last, -1) for c in children])
    alive, since, total, times = 0, 0, 0, 0
    for at, step in edges:
        if alive == 1 and step == 1:
            since, times = at, times + 1
        elif alive == 2 and step == -1:
            total += at - since
        alive += step
    return total / 1e6, times


def orphans(children, ended):
    """(children that lived on for 100 ms after their wrapper, longest life after it in ms).

    ended: when each client's wrapper ended, in ns."""
    after = [c.last - ended[c.client] for c in children if c.client in ended]
    return sum(a >= ORPHANED_NS for a in after), max([a / 1e6 for a in after if a > 0], default=0)


def figures(records, ended):
    written = sum(c.wrote is not None for c in records.children)
    ms, times = overlap(records.children)
    left, longest = orphans(records.children, ended)
    return collections.OrderedDict(
        grants=len(records.children),
        overlap_ms=round(ms),
        overlaps=times,
        updates=written,
        lost_updates=written - records.last_write,
        orphans=left,
        longest_orphan_ms=round(longest),
    )
