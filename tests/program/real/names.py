# SPDX-License-Identifier: Apache-2.0
"""Servers that are known by a name: the name service hangs, the name moves, its first address is
dead. /etc/hosts and resolv.conf are those of a mount namespace of the test."""
import ctypes, os, socket, subprocess, time
import parts

if ctypes.CDLL(None).unshare(0x20000) or subprocess.run(["mount", "--make-rprivate", "/"],
                                                        capture_output=True).returncode:
    print("skipped: no mount namespace of its own here")
    raise SystemExit(77)


class Names(parts.Case):
    @classmethod
    def setUpClass(cls):
        cls.mysql = parts.fixture("mysql").fresh("t")  # with the machine's own names

    def setUp(self):
        super().setUp()
        for name in "hosts", "resolv.conf":
            with open(f"{self.dir}/{name}", "w"):
                pass
            subprocess.run(["mount", "--bind", f"{self.dir}/{name}", f"/etc/{name}"], check=True)
            self.addCleanup(subprocess.run, ["umount", f"/etc/{name}"])

    def hosts(self, *addresses):
        with open(self.dir + "/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{a} db.example\n" for a in addresses))

    def silent_name_service(self):
        service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(service.close)
        service.bind(("127.0.0.98", 53))
        with open(self.dir + "/resolv.conf", "w") as file:
            file.write("nameserver 127.0.0.98\noptions timeout:30 attempts:5\n")

    def dead(self, port):
        """An address where nobody answers, not even with a refusal: its queue is full."""
        listener = socket.create_server(("127.0.0.97", port), backlog=0)
        self.addCleanup(listener.close)
        for _ in range(4):
            knock = socket.socket()
            knock.setblocking(False)
            knock.connect_ex(("127.0.0.97", port))
            self.addCleanup(knock.close)
        return "127.0.0.97"

    def renewed(self, run, more):
        before = run.renewals()
        run.until("it is renewed", lambda: run.renewals() >= before + more)

    def begin(self, server, ttl):
        self.lock = ["-b", server.url.replace("127.0.0.1", "db.example"), "--key", "k"]
        held = self.run_dlock(*self.lock, "--ttl", ttl, "--", *self.judged())
        parts.within("the job runs", self.runs)
        return held

    def test_name_service_hangs(self):
        """While held, and the connection breaks: the address of before is taken. A wait that knows
        none ends when it was told to."""
        server = parts.Redis()
        self.hosts("127.0.0.1")
        held = self.begin(server, "4s")
        self.silent_name_service()
        self.hosts()
        server.tell("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.renewed(held, 2)
        begin = time.monotonic()
        self.tell("run", *self.lock, "--connect-timeout", "1s", "-w", "2s", "--", "true",
                  wanted=[69])
        self.assertLess(time.monotonic() - begin, 5)
        server.kill()
        held.end(123)

    def test_name_moves(self):
        """To a replica that was promoted: the next renewal reaches it, when the first server is
        gone."""
        first = parts.Redis()
        second = parts.Redis(f"replicaof 127.0.0.1 {first.port}", f"port {first.port}",
                             "bind 127.0.0.96")
        parts.within("the replica is there",
                     lambda: "master_link_status:up" in second.tell("INFO", "replication"))
        self.hosts("127.0.0.1")
        held = self.begin(first, "9s")
        parts.within("the lock is replicated",
                     lambda: second.tell("DBSIZE") == first.tell("DBSIZE") != "0")
        second.tell("REPLICAOF", "NO", "ONE")
        self.hosts("127.0.0.96")
        first.kill()
        self.renewed(held, 2)
        self.tell("run", *self.lock, "-n", "--", "true", wanted=[75])

    def test_first_address_is_dead(self):
        for kind, url in ("redis", parts.Redis().url), ("mysql", self.mysql):
            with self.subTest(kind):
                port = int(url.split(":")[2].split("/")[0])
                self.hosts(self.dead(port), "127.0.0.1")
                named = url.replace("127.0.0.1", "db.example")
                self.tell("run", "-b", named, "--key", "k", "-n", "--connect-timeout", "4s", "--",
                          "true")


parts.main()
