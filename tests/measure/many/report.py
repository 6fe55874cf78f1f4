# SPDX-License-Identifier: Apache-2.0
"""What many.py found, for people."""


def line(fig):
    said = "%s, %s, %d: %d served" % (fig["backend"], fig["shape"], fig["count"], fig["served"])
    if fig["failures"]:
        of = ("%d of status %d" % (n, s) for s, n in fig["failures"].items())
        said += "; FAILED: " + ", ".join(of)
    if fig["held_twice"]:
        said += "; HELD TWICE: %d times" % fig["held_twice"]
    return "; ".join([said, *fig["notes"]])


def at(fig, *path, times=1, digits=2):
    """A number somewhere in the figures, or nothing."""
    for name in path:
        fig = fig.get(name) if fig else None
    return "" if fig is None else "%.*f" % (digits, fig * times)


def table(title, heads, rows):
    if not rows:
        return
    yield ""
    yield title
    yield ""
    yield "| backend | " + " | ".join(heads) + " |"
    yield "|---|" + "---:|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"


def server(fig):
    """The server's part: what it did for each grant."""
    return [
        at(fig, "per_grant", "cpu_s", times=1000),
        at(fig, "per_grant", "requests", digits=1),
        at(fig, "per_grant", "writes", digits=1),
    ]


SERVER = ["server: CPU ms", "requests", "writes"]


def queues(rows):
    names = ("p50", "p99", "max", "first", "last")
    for r in rows:
        if "handoff_p50_ms" in r:
            yield [
                r["backend"],
                {"one": "one key", "keys": "a key each"}[r["shape"]],
                r["waiter"]["count"],
                r["served"],
                r["grants_per_s"],
                *(at(r, "handoff_%s_ms" % n, digits=1) for n in names),
                *server(r),
                "%.0f" % r["load"],
            ]


def each(rows):
    for r in rows:
        for what in ("held", "waiter"):
            f = r.get(what)
            if f:
                yield [
                    r["backend"],
                    {"one": "one key", "keys": "a key each"}[r["shape"]],
                    {"held": "holder", "waiter": "waiter"}[what],
                    f["count"],
                    f["all_there_s"],
                    at(f, "client_pss_kib", digits=0),
                    at(f, "client_page_tables_kib", digits=0),
                    at(f, "server_memory_kib", digits=1),
                    at(f, "server_rss_kib", digits=1),
                    at(f, "server_connections", digits=1),
                    at(f, "server_per_start", "cpu_s", times=1000),
                    at(f, "per_s", "requests", digits=3),
                    at(f, "per_s", "writes", digits=3),
                    at(f, "per_s", "cpu_s", times=1000, digits=3),
                    at(f, "load", digits=0),
                ]


def storms(rows):
    for r in rows:
        if "starts_p50_ms" in r:
            yield [
                r["backend"],
                {"cron": "no", "splay": "%s s" % r.get("splay_s")}[r["shape"]],
                r["served"],
                r["spawned_s"],
                r["all_done_s"],
                *(at(r, "starts_%s_ms" % n, digits=0) for n in ("p50", "p99", "max")),
                r["busiest_second"],
                r["client_cpu_ms"],
                *server(r),
                at(r, "peak", "connections", digits=0),
                at(r, "peak", "cpu_s_per_s"),
                "%.0f" % r["load"],
            ]


def tables(rows):
    yield from table(
        "The lock goes round: N wait, then the holders' jobs end. Hand-off: from the death of a job"
        " to the next grant of\nits key, in ms; the first and the last tenth of the hand-offs are"
        " medians. Server: for each grant.",
        ["keys", "waiters", "served", "grants/s", "p50", "p99", "max", "first tenth", "last tenth"]
        + SERVER
        + ["load"],
        list(queues(rows)),
    )
    yield from table(
        "Each holder and each waiter: KiB of dlock and its guard (PSS) and of their page tables,"
        " KiB and connections in\nthe server, CPU of the server to let it in, and what it asks in"
        " a second while nothing happens.",
        ["keys", "what", "count", "there after, s", "PSS", "page tables", "server: KiB"]
        + ["RSS KiB", "connections", "CPU ms to arrive", "requests/s", "writes/s", "CPU ms/s"]
        + ["load"],
        list(each(rows)),
    )
    yield from table(
        "All start at once, with a key each and a job that ends at once: seconds, ms from the"
        " start to the grant, grants in\nthe busiest second, CPU ms of one run, and the server"
        " for each of them.",
        ["splay", "served", "started within", "all done", "p50", "p99", "max", "busiest second"]
        + ["CPU of a run"]
        + SERVER
        + ["connections", "server's most CPU/s", "load"],
        list(storms(rows)),
    )
