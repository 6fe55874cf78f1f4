# SPDX-License-Identifier: Apache-2.0
"""Two versions of dlock share a store: a record of a layout that this one does not know is refused
with a message, and left alone."""
import os, re, shlex, shutil, unittest, urllib.parse
import stores
from stores import STORE
from harness import ROOT, read

try:
    from kazoo.client import KazooClient
except ImportError:
    KazooClient = None
LAYOUT = "has layout 2, and this dlock knows layout 1"
KEEPS_TEXT = "return redis.call('SET', KEYS[1], 'v2|' .. redis.call('GET', KEYS[1]))"


class Formats(stores.Case):
    def setUp(self):
        super().setUp()
        if STORE == "zookeeper" and KazooClient is None:
            self.skipTest("no kazoo is installed")
        self.hosts = urllib.parse.urlsplit(self.url).netloc.split(",")

    def at_masters(self, *words):
        for host, _, port in (host.partition(":") for host in self.hosts):
            self.program("redis-cli", "-h", host, "-p", port, *words)

    def etcd(self, *words):
        return self.program("etcdctl", "--endpoints", self.hosts[0], *words,
                            env={"ETCDCTL_API": "3"}).out

    def statement(self, text):
        """In the database of the URL."""
        url = self.url.split("?")[0]
        if STORE == "postgresql":
            return self.program("psql", "-Xq", url, "-c", text)
        where = urllib.parse.urlsplit(url)
        return self.program("mariadb", "--no-defaults", "-uroot", "-h127.0.0.1", f"-P{where.port}",
                            where.path[1:], "-e", text)

    def newer(self, key):
        """Makes the record of a key what a later version might write."""
        getattr(self, "newer_" + {"postgresql": "mysql"}.get(STORE, STORE))(key)

    def newer_file(self, key):
        for name in os.listdir(f"locks/{key}"):
            path = f"locks/{key}/{name}"
            if os.path.isfile(path):  # both slots of the file
                with open(path, "r+b") as state:
                    text = state.read().replace(b"dlock1 ", b"dlock2 ")
                    state.seek(0)
                    state.write(text)

    def newer_redis(self, key):
        self.at_masters("HSET", f"{self.part}:{{{key}}}:fence", "version", "2")

    def newer_redlock(self, key):
        self.at_masters("EVAL", KEEPS_TEXT, "1", f"dlock:redlock:{self.part}:{key}")

    def newer_zookeeper(self, key):
        client = KazooClient(hosts=",".join(self.hosts))
        client.start()
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        directory = f"/{self.part}/dlock/{key}"
        for node in client.get_children(directory):
            data = client.get(f"{directory}/{node}")[0]
            self.assertTrue(data.startswith(b"dlock1 "), data)
            client.set(f"{directory}/{node}", b"dlock2" + data[6:])

    def newer_etcd(self, key):
        """As it is, under the same lease."""
        name = self.etcd("get", "--prefix", "--keys-only",
                         f"/{self.part}/dlock/lock/{key}/").splitlines()[0]
        value = self.etcd("get", "--print-value-only", name).rstrip("\n")
        self.assertRegex(value, "^dlock1 ")
        self.etcd("put", "--ignore-lease", name, "dlock2" + value[6:])

    def newer_mysql(self, key):
        self.statement(f"UPDATE dlock_lock SET layout = 2 WHERE name = '{self.part}:{key}'")

    def refused_all(self, *commands):
        for words in commands:
            with self.subTest(words):
                self.refused(64, LAYOUT, *words.split(), bound=20)
        self.not_run()

    def test_held(self):
        """A newer record of a held lock: every operation is refused, and nothing is changed."""
        self.acquired("--key", "k", "--ttl", "1h")
        self.newer("k")
        self.refused_all("run -n --key k -- touch ran", "run -w 1h --key k -- touch ran",
                         "acquire -w 1h --key k", "inspect k", "check --key k --token 1",
                         "release --key k --force --yes", "run -n --key k -- touch ran")

    def printed(self, begin):
        """The words of the command that dlock-backends(7) prints, for k of this test."""
        found = re.findall(rf"(?m)^\.Ql ({re.escape(begin)}.*').*$",
                           read(ROOT + "/man/dlock-backends.7"))
        self.assertEqual(1, len(found), f"commands that begin with {begin}")
        for name in "dlock:redlock:KEY", "dlock:{KEY}", "dlock:KEY":
            own = name.replace("KEY", "k").replace("dlock:", f"{self.part}:", 1)
            if "redlock" in name:
                own = f"dlock:redlock:{self.part}:k"
            if name in found[0]:
                return found[0].replace(name, own)
        return found[0]

    def remove_record(self):
        if STORE == "file":
            shutil.rmtree("locks/k")
        elif STORE in ("redis", "redlock"):
            begin = "DEL 'dlock:" + ("{" if STORE == "redis" else "redlock:")
            self.at_masters(*shlex.split(self.printed(begin)))
        else:
            self.statement(self.printed("DELETE FROM dlock_lock "))

    @unittest.skipIf(STORE in ("zookeeper", "etcd"), "no record says that a lock is free")
    def test_free(self):
        """A newer record of a free lock is refused, until it is removed; tokens rise on."""
        token = ["--", "printenv", "DLOCK_TOKEN"]
        before = int(self.key(*token).out)
        self.newer("k")
        self.refused_all("run -n --key k -- touch ran", "run -w 1h --key k -- touch ran",
                         "inspect k")
        self.remove_record()
        self.assertGreater(int(self.key(*token).out), before)

    def test_other_keys(self):
        """They are not affected."""
        self.acquired("--key", "k", "--ttl", "1h")
        self.newer("k")
        self.dlock("run", "-n", "--key", "other", "--", "true")

    @unittest.skipIf(STORE != "redis", "other stores have no such record")
    def test_beside_a_known_lock(self):
        """The record beside a lock that other programs know."""
        self.env["DLOCK_BACKEND"] = self.with_item("recipe=set")
        self.key("--", "true")
        self.at_masters("EVAL", KEEPS_TEXT, "1", f"dlock:fence:{{{self.part}:k}}{self.part}:k")
        self.refused_all("run -n --key k -- touch ran", "inspect k")


stores.main()
