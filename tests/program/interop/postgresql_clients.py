#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `advisory` excludes with psql and with psycopg2, both ways, for each kind of
key."""
import os
import shutil
import subprocess
import tempfile
import zlib

from beside import Store, check, command, main, missing, within

try:
    import psycopg2
except ImportError:
    psycopg2 = None

RAILS = str(2053462845 * zlib.crc32(b"app"))  # ActiveRecord's migrations of database app
KINDS = [("hashtext", "nightly", "hashtext('nightly')"),
         ("hashtextextended", "nightly", "hashtextextended('nightly',0)"),
         ("int8", RAILS, RAILS),
         ("int4,int4", "7,42", "7,42"),
         ("crc32", "nightly", f"{zlib.crc32(b'nightly') & 0x7fffffff},0")]  # with_advisory_lock
WAITING = "(SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND NOT granted)"


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


def both_ways(server, client, other, kind, key, sql):
    def dlock(*words):
        return command(server, f"advisory&key={kind}", *words)

    name = f"{type(client).__name__}, {kind}"
    check(f"{name}: takes the lock", client.ask(f"pg_advisory_lock({sql})") == "")
    busy = subprocess.run(dlock("run", "--key", key, "-n", "--", "true"), check=False)
    check(f"{name}: dlock finds it busy", busy.returncode == 75, busy)
    seen = subprocess.run(dlock("inspect", key), capture_output=True, text=True, check=False)
    check(f"{name}: inspect shows a stranger", "held by another program" in seen.stdout, seen)
    waiter = subprocess.Popen(dlock("run", "--key", key, "--", "true"))
    within("dlock waits", lambda: other.ask(WAITING) == "1")
    check(f"{name}: dlock does not run", waiter.poll() is None)
    check(f"{name}: releases", client.ask(f"pg_advisory_unlock({sql})") == "t")
    check(f"{name}: dlock runs then", waiter.wait(60) == 0)
    with tempfile.TemporaryDirectory() as work:
        job = f"touch {work}/held; until [ -e {work}/end ]; do sleep 0.02; done; touch {work}/ended"
        holder = subprocess.Popen(dlock("run", "--key", key, "--", "sh", "-c", job))
        within("dlock holds", lambda: os.path.exists(work + "/held"))
        check(f"{name}: is refused", client.ask(f"pg_try_advisory_lock({sql})") == "f")
        waits = subprocess.Popen(["psql", "-XAtq", server.url, "-c",
                                  f"SELECT pg_advisory_lock({sql})"],
                                 stdout=subprocess.DEVNULL)
        within("psql -c waits", lambda: other.ask(WAITING) == "1")
        open(work + "/end", "w", encoding="ascii").close()
        check(f"{name}: psql -c ends", waits.wait(60) == 0)
        check(f"{name}: only then", os.path.exists(work + "/ended"))
        check(f"{name}: dlock ends", holder.wait(60) == 0)
    within("it is free", lambda: client.ask(f"pg_try_advisory_lock({sql})") == "t")
    client.ask("pg_advisory_unlock_all()")


def test():
    if not shutil.which("psql"):
        missing("psql")
    if psycopg2 is None:
        missing("python3-psycopg2")
    server = Store("postgresql")
    other = Psycopg2(server.url)
    for client in (Psql(server.url), Psycopg2(server.url)):
        for kind, key, sql in KINDS:
            both_ways(server, client, other, kind, key, sql)
        client.end()
    other.end()


main(test)
