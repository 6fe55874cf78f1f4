# SPDX-License-Identifier: Apache-2.0
"""The backends: their servers, with limits that let everybody in, and what these say about
themselves."""
import os
import re
import urllib.request

from store import Store

# What counters() fails with when a server is gone or too busy.
SILENT = (OSError, LookupError, RuntimeError)
TICKS = os.sysconf("SC_CLK_TCK")


def ticks_of(pid):
    """User and system time of a process, then of its children that it has reaped."""
    with open("/proc/%d/stat" % pid) as f:
        return [int(t) for t in f.read().rpartition(")")[2].split()[11:15]]


class Backend:
    """A way of locking: how to name it to dlock, and its server; those of Redlock do the same."""

    store = None  # of the program `store`
    items = ""  # of the URL

    def __init__(self, directory, clients):
        self.dir = directory
        os.makedirs(directory)
        self.server = (
            Store(self.store, "--as-installed", "--durable", *self.options(clients))
            if self.store
            else None
        )

    def options(self, clients):
        return []

    def url(self):
        return self.server.url + self.items

    def limits(self):
        return ""

    def counters(self):
        if not self.server:
            return {}
        pid = self.server.pid
        with open("/proc/%d/status" % pid) as f:
            rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0]
        return {"cpu_s": self.ticks() / TICKS, "rss_kib": rss, **self.said()}

    def ticks(self):
        """The server's processor time."""
        return sum(ticks_of(self.server.pid)[:2])

    def sizes(self):
        """counters(), with memory where that is costly to know."""
        return {**self.counters(), **self.memory()}

    def memory(self):
        return {}

    def close(self):
        if self.server:
            self.server.end()


class FileLease(Backend):
    def url(self):
        return "file:%s/locks" % self.dir


class FileFlock(Backend):
    def url(self):
        os.makedirs(self.dir + "/flock", mode=0o700, exist_ok=True)
        return "file:%s/flock?recipe=flock" % self.dir


class RedisFair(Backend):
    store, items = "redis", "?restart_grace=0"

    def options(self, clients):
        return ["--config", "maxclients %d" % clients]

    def limits(self):
        return " ".join(self.server.tell("CONFIG", "GET", "maxclients").split())

    # Commands that dlock sends by themselves; what a script calls inside the server is not counted.
    SENT = "eval|evalsha|blpop|hello|info|script.load|wait"

    def said(self):
        info = self.server.tell("INFO", "all")
        calls = re.findall(r"^cmdstat_(?:%s):calls=(\d+)" % self.SENT, info, re.M)
        number = {k: int(v) for k, v in re.findall(r"^(\w+):(\d+)\r?$", info, re.M)}
        return {
            "requests": sum(map(int, calls)),
            "memory_kib": number["used_memory"] / 1024,
            "connections": number["connected_clients"] - 1,
        }


class Redlock(RedisFair):
    store = "redlock"


class ZookeeperSequential(Backend):
    store = "zookeeper"

    def limits(self):
        return "maxClientCnxns 0, " + os.environ["_JAVA_OPTIONS"]

    def said(self):
        said = dict(re.findall(r"(\w+)\t([\d.]+)", self.server.tell("mntr")))
        zxid = re.search(r"Zxid: 0x(\w+)", self.server.tell("srvr"))[1]
        return {
            "requests": int(said["zk_packets_received"]),
            "writes": int(zxid, 16) & 0xFFFFFFFF,
            "connections": int(said["zk_num_alive_connections"]) - 1,
        }

    def memory(self):
        """Of the heap, after its garbage was collected."""
        for command in ("GC.run", "GC.heap_info"):
            said = os.popen("jcmd %d %s" % (self.server.pid, command)).read()
        kib = re.findall(r"generation +total \d+K, used (\d+)K", said)
        return {"memory_kib": sum(map(int, kib))}


class EtcdQueue(Backend):
    store = "etcd"

    def limits(self):
        return "--quota-backend-bytes 2 GB, --heartbeat-interval 100 ms"

    def metrics(self):
        with urllib.request.urlopen("http://%s/metrics" % self.server.host, timeout=10) as r:
            said = r.read().decode()
        lines = [line.rsplit(" ", 1) for line in said.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def said(self):
        said = self.metrics()
        port = ":%04X" % self.server.port
        with open("/proc/net/tcp") as f:
            ends = [line.split()[1:4] for line in f]
        return {
            "requests": int(sum(n for k, n in said.items() if "grpc_server_started_total" in k)),
            "writes": int(said["etcd_server_proposals_committed_total"]),
            # without ours, and the gateway's own
            "connections": sum(at.endswith(port) and st == "01" for at, _, st in ends) - 2,
        }

    def memory(self):
        return {"memory_kib": self.metrics()["go_memstats_heap_inuse_bytes"] / 1024}


class MysqlLease(Backend):
    store = "mysql"

    def options(self, clients):
        return ["--config", "max_connections=%d" % clients]

    def query(self, text):
        return dict(line.split("\t") for line in self.server.tell(text).splitlines())

    def limits(self):
        said = self.query(
            "SHOW VARIABLES WHERE Variable_name IN('max_connections','thread_handling')"
        )
        return ", ".join("%s %s" % one for one in said.items())

    def said(self):
        said = self.query(
            "SHOW GLOBAL STATUS WHERE Variable_name IN('Questions','Memory_used',"
            "'Threads_connected','Com_insert','Com_update','Com_delete')"
        )
        return {
            "requests": int(said["Questions"]),
            "writes": sum(int(said["Com_" + w]) for w in ("insert", "update", "delete")),
            "memory_kib": int(said["Memory_used"]) / 1024,
            "connections": int(said["Threads_connected"]) - 2,  # of the program `store`
        }


class MysqlGetLock(MysqlLease):
    items = "?recipe=get-lock"


class PostgresqlLease(Backend):
    """Each connection is a process of the server. Its sessions report what they did once a second
    or less often, and a request is a transaction."""

    store = "postgresql"

    def options(self, clients):
        return ["--config", "max_connections=%d" % clients]

    def limits(self):
        return "max_connections " + self.server.tell("SHOW max_connections").strip()

    def sessions(self):
        pid = self.server.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(child) for child in f.read().split()]

    def of_sessions(self, question):
        """The sum of what question(pid) says; a process that has ended meanwhile is left out."""
        total = 0
        for pid in self.sessions():
            try:
                total += question(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return total

    def ticks(self):
        return sum(ticks_of(self.server.pid)) + self.of_sessions(lambda pid: sum(ticks_of(pid)[:2]))

    def said(self):
        said = self.server.tell(
            "SELECT xact_commit + xact_rollback, tup_inserted + tup_updated + tup_deleted,"
            " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()) FROM pg_stat_database WHERE datname = 'postgres'"
        )
        names = ("requests", "writes", "connections")
        return dict(zip(names, map(int, re.findall(r"\d+", said))))

    def memory(self):
        def pss(pid):
            with open("/proc/%d/smaps_rollup" % pid) as f:
                return int(re.search(r"^Pss: +(\d+)", f.read(), re.M)[1])

        return {"memory_kib": self.of_sessions(pss)}


ALL = {
    "file": FileLease,
    "file-flock": FileFlock,
    "redis": RedisFair,
    "redlock": Redlock,
    "zookeeper": ZookeeperSequential,
    "etcd": EtcdQueue,
    "mysql": MysqlLease,
    "mysql-get-lock": MysqlGetLock,
    "postgresql": PostgresqlLease,
}
