# SPDX-License-Identifier: Apache-2.0
"""One adapter per tool: the command line of a wrapper that runs a job under the lock KEY, once or
again and again."""
import os
import shutil
import subprocess

import stores

HERE = os.path.dirname(os.path.abspath(__file__))
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
    store = None  # class of its server
    ttl = 2  # seconds; None: no lease

    def __init__(self, directory, dlock):
        self.dir, self.dlock = directory, dlock
        os.makedirs(directory)
        self.server = self.store(directory + "/store") if self.store else None
        self.prepare()

    def prepare(self):
        pass

    @property
    def endpoint(self):
        return "127.0.0.1:%d" % self.server.port


class Dlock(Tool):
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
    name, store = "dlock, redis", stores.Redis
    settling = (
        30  # seconds; restart_grace: a server that has just started may have forgotten a lock
    )

    def url(self):
        return "redis://" + self.endpoint


class DlockZookeeper(Dlock):
    name, store, ttl = "dlock, zookeeper", stores.Zookeeper, 4

    def url(self):
        return "zookeeper://" + self.endpoint


class DlockMysql(Dlock):
    name, store = "dlock, mysql", stores.Mariadb

    def url(self):
        return "mysql://root@%s/locks" % self.endpoint


class Flock(Tool):
    name, ttl = "flock(1)", None  # no lease

    def command(self, key, job):
        return ["flock", self.dir + "/" + key, *job]


class Etcdctl(Tool):
    name, store = "etcdctl lock", stores.Etcd

    def command(self, key, job):
        return ["etcdctl", "--endpoints", self.endpoint, "lock", "--ttl", str(self.ttl), key, *job]


class RedisPy(Tool):
    name, store = "redis-py Lock", stores.Redis

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
    name, store, ttl = "kazoo Lock", stores.Zookeeper, 4

    def command(self, key, job):
        return [
            "/usr/bin/python3",
            HERE + "/under_kazoo.py",
            self.endpoint,
            key,
            str(self.ttl),
            *job,
        ]


class Curator(Tool):
    name, store, ttl = "Curator InterProcessMutex", stores.Zookeeper, 4

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
            self.endpoint,
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
