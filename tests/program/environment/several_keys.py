# SPDX-License-Identifier: Apache-2.0
"""Several keys under faults: whatever happens between the first and the last of them, nothing stays
held beyond the ttl, and those who take them in another order are not blocked for ever. Faults at
different points meet keys of their own, so that their leases end at the same time."""
import parts, proxy


def keys(number="", turned=False):
    both = [f"--key=a{number}", f"--key=b{number}"]
    return both[::-1] if turned else both


class SeveralKeys(parts.Case):
    def setUp(self):
        super().setUp()
        self.server = parts.Redis()

    def next(self, url, number=""):
        """Who takes them in the other order, meanwhile."""
        return self.run_dlock("-b", url, "-w", "30s", *keys(number, turned=True), "--",
                              *self.judged("exit 0", number))

    def nothing_is_held(self, url):
        self.next(url).end(0)
        self.alone()

    def test_lost_replies(self):
        """Each answer in turn is lost, from the greeting to the release of the last key."""

        def question(lose):
            between = proxy.Proxy(self.server.port, lose)
            url = self.server.url.replace(str(self.server.port), str(between.port))
            taking = self.run_dlock("-b", url, "--ttl", "2s", "-w", "20s", *keys(lose), "--",
                                    *self.judged("exit 7", lose))
            taking.end(7, 69, 123)
            self.next(self.server.url, lose).end(0)
            self.alone()
            return between.answers, between.lost

        # What arrives together counts as one, so that their number is not always the same.
        answers, _ = question(0)
        lost = self.side_by_side([(lose,) for lose in range(1, answers + 3)], question)
        self.assertGreaterEqual(sum(one for _, one in lost), 5)

    @parts.traceable
    def test_killed(self):
        """dlock is killed before each call that sends or receives."""

        def question(url, calls):
            points, behind = 0, []
            for call in calls.split():
                n = 1
                while self.killed(call, n, "run", "-b", url, "--ttl", "2s", *keys(f"{call}{n}"),
                                  "--", *self.judged("exit 0", f"{call}{n}")):
                    behind.append(self.next(url, f"{call}{n}"))
                    n += 1
                points += n - 1
            for run in behind:
                run.end(0)
            self.alone()
            return points

        calls = "write sendto", "sendmsg recvfrom", "recvmsg", "pwrite64 mknodat unlinkat"
        for url in self.server.url, self.file:
            points = self.side_by_side([(url, some) for some in calls], question)
            self.assertGreater(sum(points), 10)

    def test_opposite_orders_and_a_server_that_stops(self):
        """Six contenders in both orders; the server is silent for longer than the ttl, then empty.
        None waits for ever."""
        contenders = [self.run_dlock("-b", self.server.url, "--ttl", "3s", "-w", "50s",
                                     *keys(turned=n % 2 == 0), "--", *self.judged("sleep 0.3"))
                      for n in range(6)]
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
        self.tell("run", "-b", url, "--ttl", "3s", "-w", "20s", *keys(), "--", "sh", "-c",
                  "exit 7", wanted=[7])
        held = self.run_dlock("-b", url, "--ttl", "3s", *keys(), "--", *self.judged())
        held.event("acquired")
        masters[1].kill()
        held.end(123)
        self.tell("run", "-b", url, "--ttl", "3s", "-w", "2s", "--connect-timeout", "1s",
                  *keys(turned=True), "--", "true", wanted=[69])
        for master in masters[:2]:
            master.start()
        self.nothing_is_held(url)


parts.main()
