# SPDX-License-Identifier: Apache-2.0
"""One adapter per tool: the command line of a wrapper that runs a job under the lock KEY, once or
again and again."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE + "/../../support"]
from store import Store  # noqa: E402

CURATOR_JARS = [
    "/usr/share/java/%s.jar" % name
    for name in (
        "curator-client",
        "curator-framework",
        "curator-recipes",
        "guava",
        "slf4j-api",
        "zookeeper",
    )
]


class Tool:
    store = None  # its server, as the program `store` names it
    ttl = 2  # seconds; None: no lease

    def __init__(self, directory, dlock):
        self.dir, self.dlock = directory, dlock
        os.makedirs(directory)
        # One of its own for each, with the durability that Debian configures.
        self.server = Store(self.store, "--as-installed", "--durable") if self.store else None
        self.prepare()

    def prepare(self):
        pass


class Dlock(Tool):
    def url(self):
        return self.server.url

    def command(self, key, job):
        return [
            self.dlock,
            "run",
            "-q",
            "-b",
            self.url(),
            "--key",
            key,
            "--ttl",
            "%ds" % (self.ttl or 2),
            "--",
            *job,
        ]


class DlockFile(Dlock):
    name, ttl = "dlock, file", None  # a lock of processes, no lease

    def url(self):
        return "file:" + self.dir + "/locks"


class DlockRedis(Dlock):
    name, store = "dlock, redis", "redis"
    settling = (
        30  # seconds; restart_grace: a server that has just started may have forgotten a lock
    )


class DlockZookeeper(Dlock):
    name, store, ttl = "dlock, zookeeper", "zookeeper", 4


class DlockMysql(Dlock):
    name, store = "dlock, mysql", "mysql"


class Flock(Tool):
    name, ttl = "flock(1)", None  # no lease

    def command(self, key, job):
        return ["flock", self.dir + "/" + key, *job]


class Etcdctl(Tool):
    name, store = "etcdctl lock", "etcd"

    def command(self, key, job):
        endpoint = ["--endpoints", self.server.host]
        return ["etcdctl", *endpoint, "lock", "--ttl", str(self.ttl), key, *job]


class RedisPy(Tool):
    name, store = "redis-py Lock", "redis"

    def command(self, key, job):
        return [
            "/usr/bin/python3",
            HERE + "/under_redis_py.py",
            str(self.server.port),
            key,
            str(self.ttl),
            *job,
        ]


class Kazoo(Tool):
    name, store, ttl = "kazoo Lock", "zookeeper", 4

    def command(self, key, job):
        return [
            "/usr/bin/python3",
            HERE + "/under_kazoo.py",
            self.server.host,
            key,
            str(self.ttl),
            *job,
        ]


class Curator(Tool):
    name, store, ttl = "Curator InterProcessMutex", "zookeeper", 4

    def prepare(self):
        subprocess.run(
            ["javac", "-cp", ":".join(CURATOR_JARS), "-d", self.dir, HERE + "/UnderCurator.java"],
            check=True,
        )

    def command(self, key, job):
        return [
            "java",
            "-Xmx64m",
            "-Xshare:auto",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            ":".join([self.dir, *CURATOR_JARS]),
            "UnderCurator",
            self.server.host,
            key,
            str(self.ttl * 1000),
            *job,
        ]


ALL = {
    "dlock-file": DlockFile,
    "dlock-redis": DlockRedis,
    "dlock-zookeeper": DlockZookeeper,
    "dlock-mysql": DlockMysql,
    "flock": Flock,
    "etcdctl": Etcdctl,
    "redis-py": RedisPy,
    "kazoo": Kazoo,
    "curator": Curator,
}
PACKAGES = [
    "etcd-client",
    "etcd-server",
    "util-linux",
    "python3-redis",
    "redis-tools",
    "python3-kazoo",
    "libcurator-recipes-java",
    "libzookeeper-java",
    "mariadb-server-core",
]


def versions(dlock):
    of_dlock = subprocess.run(
        [dlock, "--version"], capture_output=True, text=True
    ).stdout.splitlines()[0]
    packages = (
        subprocess.run(
            ["dpkg-query", "-W", "-f=${Package} ${Version}\n", *PACKAGES],
            capture_output=True,
            text=True,
        )
        if shutil.which("dpkg-query")
        else None
    )
    return [of_dlock, *(packages.stdout.splitlines() if packages else [])]
