#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dlock's recipe `advisory` excludes with psql and with psycopg2, both ways, for each kind of
key."""
import os, select, shutil, subprocess, zlib

import beside

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
        if not select.select([self.process.stdout], [], [], beside.BOUND)[0]:
            raise AssertionError(f"psql does not answer: {sql}")
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Psycopg2:
    def __init__(self, url):
        self.connection = psycopg2.connect(url)
        self.connection.autocommit = True
        self.ask(f"set_config('lock_timeout', '{beside.BOUND}s', false)")

    def ask(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT (" + sql + ")::text")
            answer = cursor.fetchone()[0]
            return {"true": "t", "false": "f"}.get(answer, answer)

    def end(self):
        self.connection.close()


class Clients(beside.Case):
    store = "postgresql"

    def setUp(self):
        if not shutil.which("psql"):
            beside.missing("psql")
        if psycopg2 is None:
            beside.missing("python3-psycopg2")
        super().setUp()
        self.other = Psycopg2(self.server.url)
        self.addCleanup(self.other.end)

    def waits(self):
        return self.other.ask(WAITING) == "1"

    def both_ways(self, client, kind, key, sql):
        recipe = f"advisory&key={kind}"
        at = self.on(recipe, "--key", key)
        self.assertEqual("", client.ask(f"pg_advisory_lock({sql})"))
        self.finds_it_busy(recipe, "--key", key)
        self.assertIn("held by another program", self.tell("inspect", *self.on(recipe), key))
        waiter = self.run_dlock(*at, "--", "true")
        waiter.until("dlock waits", self.waits)
        self.assertIsNone(waiter.process.poll())
        self.assertEqual("t", client.ask(f"pg_advisory_unlock({sql})"))
        waiter.end(0)
        holder = self.run_dlock(*at, "--", "sh", "-c", "echo up; read go; touch ended",
                                stdin=subprocess.PIPE)
        holder.prints("up")
        self.assertEqual("f", client.ask(f"pg_try_advisory_lock({sql})"))
        waits = self.start("-XAtq", self.server.url, "-c", f"SELECT pg_advisory_lock({sql})",
                           dlock="psql")
        waits.until("psql -c waits", self.waits)
        holder.go()
        waits.end(0)
        self.assertTrue(os.path.exists(self.dir + "/ended"), "psql did not wait for the job")
        os.unlink(self.dir + "/ended")
        holder.end(0)
        beside.within("it is free", lambda: client.ask(f"pg_try_advisory_lock({sql})") == "t")

    def test_each_kind_of_key(self):
        for kind_of_client in Psql, Psycopg2:
            client = kind_of_client(self.server.url)
            self.addCleanup(client.end)
            for row in KINDS:
                with self.subTest(kind_of_client.__name__, row=row):
                    try:
                        self.both_ways(client, *row)
                    finally:
                        client.ask("pg_advisory_unlock_all()")


beside.main()
