# SPDX-License-Identifier: Apache-2.0
"""The backends: their servers (../comparison/stores.py) with limits that let everybody in, and
what these servers say about themselves."""
import os
import re
import socket
import subprocess
import time
import urllib.request

import redis
import stores

# What counters() fails with when a server is gone or too busy.
SILENT = (OSError, LookupError, redis.RedisError, subprocess.CalledProcessError)
TICKS = os.sysconf("SC_CLK_TCK")


class Redis(stores.Redis):
    def __init__(self, directory, clients):
        self.clients = clients
        super().__init__(directory)

    def command(self):
        return [*super().command(), "--maxclients", str(self.clients)]

    def connect(self):
        self.connection = redis.Redis(port=self.port)
        most = self.connection.config_get("maxclients")["maxclients"]
        return "maxclients %s" % most

    # Commands that dlock sends by themselves; what a script calls inside the server is not counted.
    SENT = ("eval", "evalsha", "blpop", "hello", "info", "script|load", "wait")

    def counters(self):
        info = self.connection.info("all")
        calls = {k[len("cmdstat_") :]: v["calls"] for k, v in info.items() if "cmdstat_" in k}
        return {
            "requests": sum(calls.get(name, 0) for name in self.SENT),
            "memory_kib": info["used_memory"] / 1024,
            "connections": info["connected_clients"] - 1,
        }


class Zookeeper(stores.Zookeeper):
    def __init__(self, directory, clients):
        super().__init__(directory)

    def prepare(self):
        super().prepare()
        with open(self.dir + "/zoo.cfg", "a") as f:
            f.write("maxClientCnxns=0\n4lw.commands.whitelist=mntr,srvr\n")

    def command(self):
        return [{"-Xmx128m": "-Xmx3g"}.get(word, word) for word in super().command()]

    def connect(self):
        # It accepts connections before it serves requests.
        for _ in range(600):
            try:
                if "Zxid" in self.word(b"srvr"):
                    break
            except OSError:
                pass
            time.sleep(0.05)
        return "maxClientCnxns 0, -Xmx3g"

    def word(self, word):
        with socket.create_connection(("127.0.0.1", self.port), 10) as s:
            s.sendall(word)
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def counters(self):
        said = dict(re.findall(r"(\w+)\t([\d.]+)", self.word(b"mntr")))
        return {
            "requests": int(said["zk_packets_received"]),
            "writes": int(re.search(r"Zxid: 0x(\w+)", self.word(b"srvr"))[1], 16) & 0xFFFFFFFF,
            "connections": int(said["zk_num_alive_connections"]) - 1,
        }

    def memory_kib(self):
        """Of the heap, after its garbage was collected."""
        for command in (["GC.run"], ["GC.heap_info"]):
            said = subprocess.run(
                ["jcmd", str(self.process.pid), *command], capture_output=True, text=True
            ).stdout
        return sum(int(n) for n in re.findall(r"generation +total \d+K, used (\d+)K", said))


class Mariadb(stores.Mariadb):
    def __init__(self, directory, clients):
        self.clients = clients
        super().__init__(directory)

    def prepare(self):
        super().prepare()
        with open(self.dir + "/my.cnf", "a") as f:
            f.write("max_connections=%d\n" % self.clients)

    def query(self, text):
        said = subprocess.run(
            ["mariadb", "--no-defaults", "-N", "-S", self.dir + "/s", "-u", "root", "-e", text],
            check=True,
            capture_output=True,
            text=True,
        )
        return dict(line.split("\t") for line in said.stdout.splitlines())

    def connect(self):
        said = self.query(
            "SHOW VARIABLES WHERE Variable_name IN('max_connections','thread_handling')"
        )
        return ", ".join("%s %s" % one for one in said.items())

    def counters(self):
        said = self.query(
            "SHOW GLOBAL STATUS WHERE Variable_name IN('Questions','Memory_used',"
            "'Threads_connected','Com_insert','Com_update','Com_delete')"
        )
        return {
            "requests": int(said["Questions"]),
            "writes": sum(int(said["Com_" + w]) for w in ("insert", "update", "delete")),
            "memory_kib": int(said["Memory_used"]) / 1024,
            "connections": int(said["Threads_connected"]) - 1,
        }


class Etcd(stores.Etcd):
    def __init__(self, directory, clients):
        super().__init__(directory)

    def connect(self):
        return "--quota-backend-bytes 2 GB, --heartbeat-interval 100 ms"

    def metrics(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port, timeout=10) as r:
            said = r.read().decode()
        lines = [line.rsplit(" ", 1) for line in said.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def counters(self):
        said = self.metrics()
        port = ":%04X" % self.port
        with open("/proc/net/tcp") as f:
            ends = [line.split()[1:4] for line in f]
        return {
            "requests": int(sum(n for k, n in said.items() if "grpc_server_started_total" in k)),
            "writes": int(said["etcd_server_proposals_committed_total"]),
            # without ours, and the gateway's own
            "connections": sum(at.endswith(port) and st == "01" for at, _, st in ends) - 2,
        }

    def memory_kib(self):
        return self.metrics()["go_memstats_heap_inuse_bytes"] / 1024


class Backend:
    """A way of locking: how to name it to dlock, and its servers."""

    store, masters = None, 1
    options = ()  # of dlock run

    def __init__(self, directory, clients):
        self.dir = directory
        os.makedirs(directory)
        self.servers = [
            self.store("%s/server%d" % (directory, n), clients)
            for n in range(self.masters if self.store else 0)
        ]

    async def ready(self):
        for server in self.servers:
            await server.ready()

    def hosts(self):
        return ",".join("127.0.0.1:%d" % s.port for s in self.servers)

    def connect(self):
        return [s.connect() for s in self.servers][0] if self.servers else ""

    def counters(self):
        """Of the first server; those of Redlock do the same."""
        if not self.servers:
            return {}
        server = self.servers[0]
        with open("/proc/%d/stat" % server.process.pid) as f:
            times = f.read().rpartition(")")[2].split()
        with open("/proc/%d/status" % server.process.pid) as f:
            rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0]
        return {
            "cpu_s": (int(times[11]) + int(times[12])) / TICKS,
            "rss_kib": rss,
            **server.counters(),
        }

    def sizes(self):
        """counters(), with memory where that is costly to know."""
        server = self.servers[0] if self.servers else None
        more = {"memory_kib": server.memory_kib()} if hasattr(server, "memory_kib") else {}
        return {**self.counters(), **more}

    def close(self):
        for server in self.servers:
            server.kill()


class FileLease(Backend):
    def url(self):
        return "file:%s/locks" % self.dir


class FileFlock(Backend):
    def url(self):
        os.makedirs(self.dir + "/flock", mode=0o700, exist_ok=True)
        return "file:%s/flock?recipe=flock" % self.dir


class RedisFair(Backend):
    store = Redis

    def url(self):
        return "redis://%s?restart_grace=0" % self.hosts()


class Redlock(Backend):
    store, masters = Redis, 3

    def url(self):
        return "redlock://%s?restart_grace=0" % self.hosts()


class ZookeeperSequential(Backend):
    store = Zookeeper

    def url(self):
        return "zookeeper://%s" % self.hosts()


class EtcdQueue(Backend):
    store = Etcd

    def url(self):
        return "etcd://%s" % self.hosts()


class MysqlLease(Backend):
    store = Mariadb

    def url(self):
        return "mysql://root@%s/locks" % self.hosts()


class MysqlGetLock(MysqlLease):
    def url(self):
        return super().url() + "?recipe=get-lock"


ALL = {
    "file": FileLease,
    "file-flock": FileFlock,
    "redis": RedisFair,
    "redlock": Redlock,
    "zookeeper": ZookeeperSequential,
    "etcd": EtcdQueue,
    "mysql": MysqlLease,
    "mysql-get-lock": MysqlGetLock,
}
