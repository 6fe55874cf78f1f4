# SPDX-License-Identifier: Apache-2.0
"""--once-per: dlock is killed before each of its system calls that change or tell something, one
after the other, from its start to the end of the job. A job is never started twice in its period,
and dlock never hangs afterwards."""
import parts

calls = "write pwrite64 sendmsg sendto recvmsg recvfrom mknodat renameat fsync unlinkat".split()
before_the_note = set("write1 pwrite641 sendto1 recvfrom1 mknodat1 renameat1 fsync1".split())


@parts.traceable
class KilledStarts(parts.Case):
    def walk(self, url, ttl):
        once = ["run", "-b", url, "--ttl", ttl, "--once-per", "1h"]
        points, noted = [], []  # noted: not started, yet it counts as a start
        for call in calls:
            n = 1
            while self.killed(call, n, *once, "--key", f"{call}{n}", "--", *self.job(f"{call}{n}")):
                points.append(f"{call}{n}")
                n += 1
        for point in points:
            again = parts.Run(self, *once, "-w", "30s", "--key", point, "--", *self.job(point))
            again.end(0, 75)
            ran = len(parts.read(f"{self.dir}/ran.{point}").split())
            self.assertLessEqual(ran, 1, f"killed before {point}: started {ran} times")
            if ran == 0:
                self.assertIn("was started", again.err, f"killed before {point}")
            if ran == 0:
                noted.append(point)
        self.assertGreater(len(points), 12)
        # Between the note and the exec, and not elsewhere.
        self.assertTrue(noted)
        self.assertTrue(before_the_note.isdisjoint(noted), noted)

    def job(self, key):
        return ["sh", "-c", f"echo ran >>{self.dir}/ran.{key}"]

    def test_file(self):
        self.walk(self.file, "2s")

    def test_redis(self):
        self.walk(parts.fixture("redis").fresh("t"), "2s")

    def test_mysql(self):
        self.walk(parts.fixture("mysql").fresh("t"), "2s")


parts.main()
