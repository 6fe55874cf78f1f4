# SPDX-License-Identifier: Apache-2.0
"""The servers: one of its own for each tool that needs one, on a free port of loopback, with the
durability that Debian configures."""
import asyncio
import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess

ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Store:
    """One server. start() and kill() from the main thread alone: the server dies with the thread
    that started it."""

    executable = None

    def __init__(self, directory):
        self.dir, self.port = directory, free_port()
        os.makedirs(directory)
        self.prepare()
        self.start()

    def prepare(self):
        pass

    def start(self):
        with open(self.dir + "/output", "a") as output:
            self.process = subprocess.Popen(
                self.command(),
                executable=self.executable,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    async def ready(self):
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                await asyncio.sleep(0.1)
        raise RuntimeError("no answer of %s; see %s" % (type(self).__name__, self.dir))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


class Redis(Store):
    # Debian's redis-tools has the server under this name; what it is called decides what it does.
    executable = shutil.which("redis-server") or shutil.which("redis-check-rdb")

    def command(self):
        return [
            "redis-server",
            "--bind",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--dir",
            self.dir,
            "--save",
            "3600 1 300 100 60 10000",
            "--appendonly",
            "no",
        ]


class Zookeeper(Store):
    def prepare(self):
        with open(self.dir + "/zoo.cfg", "w") as f:
            f.write(
                "tickTime=2000\ndataDir=%s/data\nclientPort=%d\n"
                "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n" % (self.dir, self.port)
            )

    def command(self):
        return [
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            self.dir + ":" + ZOOKEEPER_JAR,
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            self.dir + "/zoo.cfg",
        ]


class Mariadb(Store):
    def prepare(self):
        with open(self.dir + "/my.cnf", "w") as f:
            f.write(
                "[mariadbd]\ndatadir={0}/data\nport={1}\nbind-address=127.0.0.1\n"
                "socket={0}/s\npid-file={0}/pid\nlog-error={0}/log\n"
                "skip-name-resolve\n".format(self.dir, self.port)
            )
        with open(self.dir + "/output", "a") as output:
            subprocess.run(
                [
                    "mariadb-install-db",
                    "--no-defaults",
                    "--datadir=" + self.dir + "/data",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--user=" + getpass.getuser(),
                ],
                check=True,
                stdout=output,
                stderr=output,
            )

    def command(self):
        return [
            "mariadbd",
            "--defaults-file=" + self.dir + "/my.cnf",
            "--user=" + getpass.getuser(),
        ]

    async def ready(self):
        await super().ready()
        subprocess.run(
            [
                "mariadb",
                "--no-defaults",
                "-S",
                self.dir + "/s",
                "-u",
                "root",
                "-e",
                "CREATE DATABASE IF NOT EXISTS locks",
            ],
            check=True,
        )


class Etcd(Store):
    def command(self):
        client, peer = "http://127.0.0.1:%d" % self.port, "http://127.0.0.1:%d" % self.peer
        return [
            "etcd",
            "--data-dir",
            self.dir + "/data",
            "--listen-client-urls",
            client,
            "--advertise-client-urls",
            client,
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            "default=" + peer,
        ]

    def prepare(self):
        self.peer = free_port()
