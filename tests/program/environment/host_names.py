# SPDX-License-Identifier: Apache-2.0
"""Servers that are known by a name: the name service hangs, the name moves, its first address is
dead. /etc/hosts and resolv.conf are those of a mount namespace of the test."""
import ctypes, re, socket, subprocess, time, unittest
import parts, proxy

if ctypes.CDLL(None).unshare(0x20000) or subprocess.run(["mount", "--make-rprivate", "/"],
                                                        capture_output=True).returncode:
    print("skipped: no mount namespace of its own here")
    raise SystemExit(77)


class HostNames(parts.Case):
    @classmethod
    def setUpClass(cls):  # with the machine's own names
        cls.stores = {}
        for kind in "redis", "mysql", "postgresql", "zookeeper", "etcd":
            try:
                more = "/0?restart_grace=0" if kind == "redis" else ""
                cls.stores[kind] = parts.fixture(kind).url + more
            except unittest.SkipTest as why:
                print(why)

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

    def begin(self, url, ttl):
        self.forget_runs()
        named = url.replace("127.0.0.1", "db.example")
        self.lock = ["-b", named, "--key", self._testMethodName]
        held = self.run_dlock(*self.lock, "--ttl", ttl, "--", *self.judged())
        held.until("the job runs", self.runs)
        return held

    def each(self, question):
        for kind, url in self.stores.items():
            with self.subTest(kind):
                question(url, int(re.search(r"127\.0\.0\.1:(\d+)", url)[1]))

    def test_name_service_hangs(self):
        """While held, and the connection breaks: the address of before is taken. A wait that knows
        none ends when it was told to."""
        self.silent_name_service()

        def question(url, port):
            between = proxy.Proxy(port, at=("127.0.0.94", port))
            self.hosts("127.0.0.94")
            held = self.begin(url, "6s")
            self.hosts()
            between.cut()
            self.renewed(held, 2)
            begin = time.monotonic()
            self.tell("run", *self.lock, "--connect-timeout", "1s", "-w", "2s", "--", "true",
                      wanted=[69])
            self.assertLess(time.monotonic() - begin, 5)
            held.clean()
            between.end()

        self.each(question)

    def test_name_moves_to_a_replica(self):
        """That was promoted: the next renewal reaches it, when the first server is gone."""
        first = parts.Redis()
        second = parts.Redis(f"replicaof 127.0.0.1 {first.port}", f"port {first.port}",
                             "bind 127.0.0.96")
        parts.within("the replica is there",
                     lambda: "master_link_status:up" in second.tell("INFO", "replication"))
        self.hosts("127.0.0.1")
        held = self.begin(first.url, "9s")
        parts.within("the lock is replicated",
                     lambda: second.tell("DBSIZE") == first.tell("DBSIZE") != "0")
        second.tell("REPLICAOF", "NO", "ONE")
        self.hosts("127.0.0.96")
        first.kill()
        self.renewed(held, 2)
        self.tell("run", *self.lock, "-n", "--", "true", wanted=[75])

    def test_name_moves(self):
        """To another address of the store, of each kind: the next connection is made there."""

        def question(url, port):
            first, second = (proxy.Proxy(port, at=(f"127.0.0.{n}", port)) for n in (95, 96))
            self.hosts("127.0.0.95")
            held = self.begin(url, "6s")
            self.hosts("127.0.0.96")
            first.end()
            self.renewed(held, 2)
            self.tell("run", *self.lock, "-n", "--", "true", wanted=[75])
            self.assertGreater(second.answers, 0)
            held.clean()
            second.end()

        self.each(question)

    def test_first_address_is_dead(self):
        def question(url, port):
            # Where both addresses are as far from our own, the order is that of /etc/hosts.
            dead, alive = self.dead(port), proxy.Proxy(port, at=("127.0.0.96", port))
            self.hosts(dead, "127.0.0.96")
            self.assertEqual(socket.getaddrinfo("db.example", port)[0][4][0], dead)
            self.tell("run", "-b", url.replace("127.0.0.1", "db.example"), "--key", "k", "-n",
                      "--connect-timeout", "4s", "--", "true")
            alive.end()

        self.each(question)

    def silent(self, port):
        """An address where a server accepts, and never answers: it is stopped."""
        listener = socket.create_server(("127.0.0.93", port))
        self.addCleanup(listener.close)
        return "127.0.0.93"

    def test_first_address_is_silent(self):
        """It takes connections, and says nothing: a short wait has time for the next one."""

        def question(url, port):
            silent, alive = self.silent(port), proxy.Proxy(port, at=("127.0.0.96", port))
            self.hosts(silent, "127.0.0.96")
            self.assertEqual(socket.getaddrinfo("db.example", port)[0][4][0], silent)
            # The clients of the others have shares of their own.
            wait = "3s" if url.startswith(("redis", "etcd")) else "20s"
            self.tell("run", "-b", url.replace("127.0.0.1", "db.example"), "--key", "k", "-w", wait,
                      "--", "true")
            alive.end()

        self.each(question)

    def test_first_address_falls_silent(self):
        """While a lock of each store is held, at defaults: it is held on at the next address."""
        self.hosts("127.0.0.93", "127.0.0.96")
        first, second, held = {}, {}, {}
        for kind, url in self.stores.items():
            port = int(re.search(r"127\.0\.0\.1:(\d+)", url)[1])
            first[kind] = proxy.Proxy(port, at=("127.0.0.93", port))
            second[kind] = proxy.Proxy(port, at=("127.0.0.96", port))
            self.addCleanup(first[kind].end)
            self.addCleanup(second[kind].end)
            held[kind] = self.run_dlock("-b", url.replace("127.0.0.1", "db.example"), "--key",
                                        self._testMethodName, "--", "sleep", "600")
        for kind, run in held.items():
            run.event("acquired")
            first[kind].stop()
        for kind, run in held.items():
            with self.subTest(kind):
                self.renewed(run, 2)
                self.assertGreater(second[kind].answers, 0)
                run.clean()

    def test_sentinels_whose_first_addresses_are_silent(self):
        url = parts.fixture("sentinel").url + "?restart_grace=0"
        ports = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", url)]
        alive = [proxy.Proxy(port, at=("127.0.0.96", port)) for port in ports]
        self.hosts(*{self.silent(port) for port in ports}, "127.0.0.96")
        self.tell("run", "-b", url.replace("127.0.0.1", "db.example"), "--key", "k", "-w", "3s",
                  "--", "true")
        for one in alive:
            one.end()

    def test_name_of_members_that_close(self):
        """A proxy in front of etcd closes behind each answer, and has two addresses."""
        url = self.stores.get("etcd") or parts.missing("etcd")
        port = int(re.search(r"127\.0\.0\.1:(\d+)", url)[1])
        both = [proxy.Proxy(port, at=(f"127.0.0.{n}", port), closes=True) for n in (95, 96)]
        self.hosts("127.0.0.95", "127.0.0.96")
        self.tell("run", "-b", url.replace("127.0.0.1", "db.example"), "--key", "k", "-w", "3s",
                  "--", "true")
        for one in both:
            one.end()

    def test_first_member_is_silent(self):
        """Of several members of etcd, known by their addresses."""
        url = self.stores.get("etcd") or parts.missing("etcd")
        port = int(re.search(r"127\.0\.0\.1:(\d+)", url)[1])
        self.tell("run", "-b", url.replace("127.0.0.1", f"{self.silent(port)}:{port},127.0.0.1"),
                  "--key", "k", "-w", "3s", "--", "true")


parts.main()
