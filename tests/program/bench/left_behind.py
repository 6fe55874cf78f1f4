# SPDX-License-Identifier: Apache-2.0
"""What `dlock bench` leaves in a store: nothing, however it ends; and data of others is not
touched. $STORE is redis, redlock, zookeeper, mysql, postgresql or etcd."""
import json, os, re, signal, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
from harness import within  # noqa: E402

STORE = os.environ.get("STORE", "redis")


class Redis:
    """One or several. Names and contents, in order."""
    all = """local all = {}
             for _, key in ipairs(redis.call('KEYS', '*')) do
               all[#all + 1] = key .. ' ' .. redis.sha1hex(redis.call('DUMP', key))
             end
             table.sort(all)
             return all"""
    planted = ["b", "b0-handoff", "0-handoff", "{b-0-handoff}", "dlock:fence:{b}b",
               "c-{0-handoff}:fence", "dlock:{k}:fence", "dlock:redlock:b",
               "dlock:redlock:0-handoff", "dlock:redlock-wake:b0-handoff"]

    def __init__(self, case):
        self.url = case.server.url.split("?")[0] + "?restart_grace=0"
        self.ports = [host.rpartition(":")[2] for host in case.server.host.split(",")]
        self.tell("FLUSHALL")

    def tell(self, *words):
        return [subprocess.run(["redis-cli", "-p", port, *words], stdout=subprocess.PIPE,
                               check=True, timeout=60).stdout for port in self.ports]

    def plant(self, _):
        for name in self.planted:
            self.tell("SET", name, "of others")

    def everything(self):
        return self.tell("EVAL", self.all, "0")


class Zookeeper:
    def __init__(self, case):
        try:
            from kazoo.client import KazooClient
        except ImportError:
            harness.missing("python3-kazoo")
        self.root, self.url = "/" + case.part, case.server.fresh(case.part)
        self.client = KazooClient(case.server.host, timeout=60)
        self.client.start(60)
        case.addCleanup(self.client.stop)
        self.client.ensure_path(self.root)

    def plant(self, _):
        for name in ("/b", "/b/-0-handoff", "/b0-handoff", "/0-handoff", "/c-0-handoff",
                     "/dlock/k"):
            self.client.ensure_path(self.root + name)
        self.client.create(
            self.root + "/b0-handoff/_c_0123456789abcdef0123456789abcdef-__WRIT__0000000000",
            b"of others")

    def everything(self, path=None):
        path = path or self.root
        text, stat = self.client.get(path)
        found = [(path, stat.czxid, text)]
        for name in sorted(self.client.get_children(path)):
            found += self.everything(f"{path}/{name}")
        return found


class Etcd:
    def __init__(self, case):
        self.root, self.url = "/" + case.part, case.server.fresh(case.part)
        self.server = case.server

    def plant(self, _):
        for name in ("/b", "/b/-0-handoff", "/b0-handoff/1", "/0-handoff/1", "/c-0-handoff/1",
                     "/dlock/lock/k/1", "/dlock/last/k"):
            self.server.tell("put", self.root + name, "of others")

    def everything(self):
        found = json.loads(self.server.tell("get", "--prefix", self.root + "/", "-w", "json"))
        return [(kv["key"], kv["create_revision"], kv["value"]) for kv in found.get("kvs", [])]


class Sql:
    """Tables that dlock has made, with rows of others in them."""
    names = ["b", "b0-handoff", "0-handoff", "B-0-handoff", "c-0-handoff"]
    lease = ["dlock_lock(name,version,fence,state,updated) VALUES('{}',1,1,'',0)",
             "dlock_wait(name,owner,mode,permits,live,since,who) VALUES('{}','o','X',1,0,0,'')"]
    part = ""

    def plant(self, case):
        for recipe in case.recipes:
            case.dlock("run", "-b", self.url, "--recipe", recipe, "--key", "used", "--", "true")
        for name in self.names:
            for row in self.rows:
                self.tell(f"INSERT INTO {self.part}{row.format(name)}")

    def everything(self):
        return [(table, sorted(self.tell(f"SELECT * FROM {self.part}{table}").splitlines()))
                for table in self.tell(self.tables).split()]


class Mysql(Sql):
    rows = [*Sql.lease, "dlock_row VALUES('{}')",
            "method_lock(method_name,method_desc) VALUES('{}','of others')",
            *(f"{table} VALUES('{{}}',1,'',0,0,0,'')"
              for table in ("dlock_named", "dlock_grant", "dlock_insert")),
            "dlock_version VALUES('{}',1,1,'',0,0,0,'')"]

    def __init__(self, case):
        self.url, self.tell = case.server.fresh(case.part), case.server.tell
        self.part, self.tables = case.part + ".", "SHOW TABLES IN " + case.part


class Postgresql(Sql):
    rows = [*Sql.lease, "dlock_advisory VALUES('hashtext:{}',1,'',0,0,'')"]
    tables = "SELECT tablename FROM pg_tables WHERE schemaname='public' ORDER BY 1"

    def __init__(self, case):
        self.url, self.tell = case.server.url, case.server.tell
        for table in self.tell(self.tables).split():
            self.tell(f"TRUNCATE {table}")


class Case(harness.Case):
    number = 0
    bound = 200
    # With all the time that a store on a busy machine may need: an answer that comes late would
    # end the benchmark, or be an error of it. Holds, so that the clients mostly wait.
    patient = ["-c", "3", "--hold", "20ms", "--op-timeout", "60s", "--connect-timeout", "60s"]

    def setUp(self):
        super().setUp()
        self.server = harness.fixture(STORE)
        version = self.dlock("--version").out
        words = re.search(rf"(?m)^{STORE}: (.*)", version)[1]
        self.recipes = re.findall(r"[a-z-]+", re.sub(r"\([^)]*\)", "", words))
        self.new_store()

    def new_store(self):
        Case.number += 1
        self.part = f"bench{Case.number}"
        self.store = globals()[STORE.capitalize().replace("Redlock", "Redis")](self)

    def below(self, prefix, url=None):
        url = url or self.store.url
        return f"{url}{'&' if '?' in url else '?'}prefix={prefix}"

    def planted(self):
        self.store.plant(self)
        return self.store.everything()

    def bench(self, *words, patient=patient):
        return self.start("bench", "-b", self.store.url, "--prefix", "b-", *patient, *words)

    def progress(self, run, text):
        run.until(f"progress {text!r}",
                  lambda: re.search(rf"(?m)^progress: .*{re.escape(text)}", run.err))

    def interrupt(self, run):
        run.send(signal.SIGINT).end(-signal.SIGINT, seconds=self.bound)

    def unchanged(self, before, run):
        self.assertNotIn("still there", run.out + run.err, str(run))
        self.assertEqual(before, self.store.everything(), str(run))


class LeftBehind(Case):
    def test_to_the_end(self):
        before = self.planted()
        for words in (["--recipe", "all", "--scenario", "uncontended,handoff,shared,limit,renew",
                       "-N", "30"], ["--scenario", "crash", "--ttl", "2s"]):
            run = self.bench(*words)
            run.end(0, seconds=self.bound)
            self.unchanged(before, run)

    def test_interrupt(self):
        before = self.planted()
        for recipe in self.recipes:
            with self.subTest(recipe):
                for scenario in "handoff", "renew":
                    run = self.bench("--recipe", recipe, "--scenario", scenario, "-d", "1h", "-P",
                                     "20ms")
                    self.progress(run, f" {scenario}  ")
                    self.interrupt(run)
                    self.unchanged(before, run)
                run = self.bench("--recipe", recipe, "--scenario", "crash", "-P", "1s")
                self.progress(run, " crash 1/3")
                # the one that is to be killed has the lock
                run.until("a grant", lambda: self.store.everything() != before)
                self.interrupt(run)
                self.unchanged(before, run)

    def test_error(self):
        before = self.planted()
        for recipe in self.recipes:
            with self.subTest(recipe):
                run = self.bench("--recipe", recipe, "--scenario", "renew", "-d", "1h", "-P",
                                 "20ms")
                self.progress(run, " renew  ")

                # The client may not have taken this lease yet, or not have heard of it: then it is
                # not lost.
                def ends():
                    self.dlock("release", "-b", self.below("b-"), "--recipe", recipe, "--key",
                               "0-renew-1-3", "--force", "--yes", "-q", wanted=[0, 75])
                    return run.ends_within(0.2)

                within("the benchmark ends", ends)
                self.assertGreaterEqual(run.end(), 0, str(run))
                self.assertIn("a lease was lost", run.err)
                self.unchanged(before, run)

    def test_key_below_the_prefix(self):
        """Refused, and the key stays held."""
        for recipe in self.recipes:
            with self.subTest(recipe):
                self.new_store()
                self.store.plant(self)
                at = ["-b", self.below("b-"), "--recipe", recipe]
                holder = self.run_dlock(*at, "--key", "mine", "--", "sleep", "1000")
                holder.event("acquired")
                run = self.bench("--recipe", recipe, "-d", "100ms")
                run.end(64, seconds=self.bound)
                self.assertIn("--prefix", run.err)
                self.assertIn("'mine'", run.err)
                self.dlock("inspect", *at, "--check", "mine", wanted=75)
                holder.send(signal.SIGTERM).end(-signal.SIGTERM)


def only(store):
    """Cases of one store."""
    return lambda cases: cases if STORE == store else None


@only("redis")
class OnRedis(Case):
    def test_server_is_gone(self):
        """At the end: bench reports the keys that stay."""
        for output in "text", "csv":
            self.new_store()
            # At the usual times: who asks a server that is gone gives up after them.
            run = self.bench("--scenario", "handoff", "-d", "1h", "-P", "20ms", "--output", output,
                             patient=["-c", "3"])
            self.progress(run, " handoff  ")
            self.server.kill()
            try:
                self.interrupt(run)
                self.assertIn("redis fair: what was written below 'b-' is still there: ",
                              run.out + run.err)
            finally:
                self.server.start()


@only("zookeeper")
class OnZookeeper(Case):
    def test_foreign_node(self):
        """In the directory of a key: it stays, and bench reports it."""
        run = self.bench("--scenario", "handoff", "-d", "1h", "-P", "20ms")
        self.progress(run, " handoff  ")
        key, client = self.store.root + "/b-0-handoff", self.store.client

        def makes():  # the directory is removed whenever nobody is in it
            try:
                client.ensure_path(key + "/data")
                return client.exists(key + "/data")
            except Exception:
                return False

        run.until("a foreign node", makes)
        self.interrupt(run)
        self.assertIn(f"is still there: {key} has a node 'data' of another program in it", run.out)
        self.assertEqual(["data"], client.get_children(key))

    def test_node_that_is_not_ephemeral(self):
        key = self.store.root + "/b-0-handoff"
        self.store.client.create(key, b"of others")
        self.bench("--recipe", "ephemeral", "--scenario", "handoff", "-d", "100ms").end(64)
        self.assertEqual(b"of others", self.store.client.get(key)[0])


@only("mysql")
class OnMysql(Case):
    def test_foreign_rows(self):
        """Below the prefix: refused, whether they are locked or not."""
        self.planted()
        tell, part = self.store.tell, self.part
        tell(f"INSERT INTO {part}.method_lock(method_name,method_desc) VALUES('b-x','of others')")
        tell(f"CREATE TABLE {part}.QRTZ_LOCKS(SCHED_NAME VARCHAR(120) NOT NULL, LOCK_NAME "
             "VARCHAR(40) NOT NULL, PRIMARY KEY(SCHED_NAME,LOCK_NAME))")
        tell(f"INSERT INTO {part}.QRTZ_LOCKS VALUES('s','b-x'),('t','c-x')")
        before = self.store.everything()
        insert = self.bench("--recipe", "insert", "-d", "100ms")
        insert.end(64)
        self.assertIn("'x'", insert.err)
        quartz = "?table=QRTZ_LOCKS&key_column=LOCK_NAME&where.SCHED_NAME="
        for scheduler, words, status in (("s", ["-d", "100ms"], 64), ("t", ["-N", "30"], 0)):
            done = self.dlock("bench", "-b", self.store.url + quartz + scheduler, "--recipe",
                              "for-update", "--prefix", "b-", *words, wanted=status)
            self.assertEqual(status == 64, "'x'" in done.err)
            self.assertEqual(before, self.store.everything())


harness.main()
