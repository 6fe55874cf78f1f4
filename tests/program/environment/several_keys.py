# SPDX-License-Identifier: Apache-2.0
"""Several keys under faults: whatever happens between the first and the last of them, nothing stays
held beyond the ttl, and those who take them in another order are not blocked for ever."""
import parts, proxy


class SeveralKeys(parts.Case):
    both, turned = ["--key", "a", "--key", "b"], ["--key", "b", "--key", "a"]

    def setUp(self):
        super().setUp()
        self.server = parts.Redis()

    def nothing_is_held(self, url):
        self.tell("run", "-b", url, "-w", "30s", *self.turned, "--", *self.judged("exit 0"))
        self.alone()

    def test_lost_replies(self):
        """Each answer in turn is lost, from the greeting to the release of the last key."""
        lose = 0
        while True:
            lose += 1
            between = proxy.Proxy(self.server.port, lose)
            url = self.server.url.replace(str(self.server.port), str(between.port))
            taking = self.run_dlock("-b", url, "--ttl", "2s", "-w", "20s", *self.both, "--",
                                    *self.judged("exit 7"))
            taking.end(7, 69, 123)
            self.nothing_is_held(self.server.url)
            between.end()
            if not between.lost:
                break
        self.assertGreater(lose, 5)

    @parts.traceable
    def test_killed(self):
        """dlock is killed before each call that sends or receives."""
        for url in self.server.url, self.file:
            points = 0
            for call in "write sendto sendmsg recvfrom recvmsg pwrite64 mknodat unlinkat".split():
                n = 1
                while self.killed(call, n, "run", "-b", url, "--ttl", "2s", *self.both, "--",
                                  *self.judged("exit 0")):
                    self.nothing_is_held(url)
                    n += 1
                points += n - 1
            self.assertGreater(points, 10)

    def test_opposite_orders_and_a_server_that_stops(self):
        """Six contenders in both orders; the server is silent for longer than the ttl, then empty.
        None waits for ever."""
        contenders = [self.run_dlock("-b", self.server.url, "--ttl", "3s", "-w", "50s",
                                     *(self.both if n % 2 else self.turned), "--",
                                     *self.judged("sleep 0.3")) for n in range(6)]
        parts.within("some ran", lambda: self.runs() >= 2)
        self.server.freeze()
        parts.within("its job is ended",
                     lambda: any("lost" in [e["event"] for e in c.events()] for c in contenders)
                     or all(c.process.poll() is not None for c in contenders))
        self.server.thaw()
        for contender in contenders:
            contender.end(0, 69, 123)
        self.nothing_is_held(self.server.url)

    def test_redlock(self):
        """A minority of masters is gone: both keys are granted. A majority: neither, and nothing
        stays on the last."""
        masters = [self.server, parts.Redis(), parts.Redis()]
        url = "redlock://" + ",".join(f"127.0.0.1:{m.port}" for m in masters) + "/0?restart_grace=0"
        masters[0].kill()
        self.tell("run", "-b", url, "--ttl", "3s", "-w", "20s", *self.both, "--", "sh", "-c",
                  "exit 7", wanted=[7])
        held = self.run_dlock("-b", url, "--ttl", "3s", *self.both, "--", *self.judged())
        held.event("acquired")
        masters[1].kill()
        held.end(123)
        self.tell("run", "-b", url, "--ttl", "3s", "-w", "2s", "--connect-timeout", "1s",
                  *self.turned, "--", "true", wanted=[69])
        for master in masters[:2]:
            master.start()
        self.nothing_is_held(url)


parts.main()
