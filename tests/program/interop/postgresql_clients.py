#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `advisory` excludes with psql and with psycopg2, both ways, for each kind of key.

usage: postgresql_clients.py DLOCK FIXTURE    exit status 77: psql, python3-psycopg2 or the server
is not installed (1 with CI=true)
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

try:
    import psycopg2
except ImportError:
    psycopg2 = None

DLOCK, FIXTURE = sys.argv[1:]
RAILS = str(2053462845 * zlib.crc32(b"app"))  # ActiveRecord's migrations of database app
KINDS = [("hashtext", "nightly", "hashtext('nightly')"),
         ("hashtextextended", "nightly", "hashtextextended('nightly',0)"),
         ("int8", RAILS, RAILS),
         ("int4,int4", "7,42", "7,42"),
         ("crc32", "nightly", f"{zlib.crc32(b'nightly') & 0x7fffffff},0")]  # with_advisory_lock


def missing(what):
    ci = os.environ.get("CI") == "true"
    print(("FAILED" if ci else "SKIPPED") + ": " + what + " is not installed", file=sys.stderr)
    sys.exit(1 if ci else 77)


def within(what, question, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if question():
            return
        time.sleep(0.01)
    raise AssertionError("not in time: " + what)


def check(what, condition, detail=""):
    if not condition:
        raise AssertionError(f"{what} {detail}")
    print("ok", what)


class Psql:
    """Statements by hand."""

    def __init__(self, url):
        self.url = url
        self.process = subprocess.Popen(["psql", "-XAtq", url], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, sql):
        self.process.stdin.write(f"SELECT {sql};\n")
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Psycopg2:
    def __init__(self, url):
        self.connection = psycopg2.connect(url)
        self.connection.autocommit = True

    def ask(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT (" + sql + ")::text")
            answer = cursor.fetchone()[0]
            return {"true": "t", "false": "f"}.get(answer, answer)

    def end(self):
        self.connection.close()


def both_ways(url, client, other, kind, key, sql):
    def dlock(*words, **more):
        return [DLOCK, words[0], "-b", f"{url}?recipe=advisory&key={kind}", "-q", *words[1:]]

    name = f"{type(client).__name__}, {kind}"
    check(f"{name}: takes the lock", client.ask(f"pg_advisory_lock({sql})") == "")
    busy = subprocess.run(dlock("run", "--key", key, "-n", "--", "true"), check=False)
    check(f"{name}: dlock finds it busy", busy.returncode == 75, busy)
    seen = subprocess.run(dlock("inspect", key), capture_output=True, text=True, check=False)
    check(f"{name}: inspect shows a stranger", "held by another program" in seen.stdout, seen)
    waiter = subprocess.Popen(dlock("run", "--key", key, "--", "true"))
    within("dlock waits", lambda: other.ask(
        "(SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND NOT granted)") == "1")
    check(f"{name}: dlock does not run", waiter.poll() is None)
    check(f"{name}: releases", client.ask(f"pg_advisory_unlock({sql})") == "t")
    check(f"{name}: dlock runs then", waiter.wait(30) == 0)
    with tempfile.TemporaryDirectory() as work:
        job = f"touch {work}/held; until [ -e {work}/end ]; do sleep 0.02; done; touch {work}/ended"
        holder = subprocess.Popen(dlock("run", "--key", key, "--", "sh", "-c", job))
        within("dlock holds", lambda: os.path.exists(work + "/held"))
        check(f"{name}: is refused", client.ask(f"pg_try_advisory_lock({sql})") == "f")
        waits = subprocess.Popen(["psql", "-XAtq", url, "-c", f"SELECT pg_advisory_lock({sql})"],
                                 stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        check(f"{name}: psql -c waits", waits.poll() is None)
        open(work + "/end", "w", encoding="ascii").close()
        check(f"{name}: psql -c ends", waits.wait(30) == 0)
        check(f"{name}: only then", os.path.exists(work + "/ended"))
        check(f"{name}: dlock ends", holder.wait(30) == 0)
    within("it is free", lambda: client.ask(f"pg_try_advisory_lock({sql})") == "t")
    client.ask("pg_advisory_unlock_all()")


def main():
    if not shutil.which("psql"):
        missing("psql")
    if psycopg2 is None:
        missing("python3-psycopg2")
    base = tempfile.mkdtemp(prefix="dlock-interop.")
    server = subprocess.Popen([FIXTURE, base + "/url"])
    try:
        within("the server answers",
               lambda: os.path.exists(base + "/url") or server.poll() is not None)
        if server.poll() is not None:
            return server.returncode
        with open(base + "/url", encoding="ascii") as file:
            url = file.read().strip()
        other = Psycopg2(url)
        for client in (Psql(url), Psycopg2(url)):
            for kind, key, sql in KINDS:
                both_ways(url, client, other, kind, key, sql)
            client.end()
        other.end()
        return 0
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(base)


sys.exit(main())
