# SPDX-License-Identifier: Apache-2.0
"""A password is rotated while a lock is held or waited for, and all connections are cut."""
import os
import parts


class Passwords(parts.Case):
    def setUp(self):
        super().setUp()
        self.password = self.dir + "/password"
        self.write("old")

    def write(self, word):
        with open(self.password + ".new", "w") as file:
            file.write(word + "\n")
        os.chmod(self.password + ".new", 0o600)
        os.rename(self.password + ".new", self.password)

    def redis(self):
        server = parts.Redis("requirepass old")
        server.tell("AUTH", "old")

        def rotate():
            server.tell("CONFIG", "SET", "requirepass", "new")
            server.tell("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            server.tell("CLIENT", "KILL", "TYPE", "pubsub")

        return server.url, rotate

    def mysql(self):
        server = parts.fixture("mysql")
        name = self._testMethodName
        url = server.fresh(name)
        server.tell(f"CREATE USER {name}@'%' IDENTIFIED BY 'old'")
        server.tell(f"GRANT ALL ON {name}.* TO {name}@'%'")

        def rotate():
            server.tell(f"ALTER USER {name}@'%' IDENTIFIED BY 'new'")
            ids = f"SELECT id FROM information_schema.processlist WHERE user = '{name}'"
            for id in server.tell(ids).split():
                try:
                    server.tell(f"KILL CONNECTION {id}")
                except Exception:  # it has gone
                    pass

        return url.replace("root@", f"{name}@"), rotate

    def test_doctor(self):
        """It says who may read the secret."""
        url, _ = self.redis()
        done = self.dlock("inspect", "--doctor", "-b", url, "--password-file", self.password,
                          wanted=(0, 1))
        self.assertLine(f"ok +secret +{self.password}: its owner alone may read it", done)

    def each(self, question):
        for kind in self.redis, self.mysql:
            with self.subTest(kind.__name__):
                url, rotate = kind()
                self.lock = ["-b", url, "--password-file", self.password, "--key", "k"]
                self.write("old")
                question(rotate)
                self.alone()
                self.forget_runs()

    def goes_on(self, run):  # through two more renewals
        before = run.renewals()
        run.until("it is renewed", lambda: run.renewals() >= before + 2)

    def test_held(self):
        """The new password is in the file: the holder goes on, the waiter gets its turn."""

        def question(rotate):
            held = self.run_dlock(*self.lock, "--ttl", "6s", "--",
                                  *self.judged("read line <fifo; exit 7"))
            parts.within("the job runs", self.runs)
            waiter = self.run_dlock(*self.lock, "--", *self.judged("exit 0"))
            waiter.event("waiting")
            self.write("new")
            rotate()
            self.goes_on(held)
            self.assertEqual(self.runs(), 1)
            with open(self.dir + "/fifo", "w") as end:
                end.write("\n")
            held.end(7)
            waiter.end(0)

        os.mkfifo(self.dir + "/fifo")
        self.each(question)

    def test_held_and_the_file_comes_late(self):
        """After the first refused renewal, before the end of the lease."""

        def question(rotate):
            held = self.run_dlock(*self.lock, "--ttl", "15s", "--", *self.judged())
            parts.within("the job runs", self.runs)
            rotate()
            held.event("renew_failed")
            self.write("new")
            self.goes_on(held)
            held.process.terminate()
            held.end(-15)

        self.each(question)

    def test_held_and_never_told(self):
        """The job ends with the lease, and the line names where the password is from."""

        def question(rotate):
            held = self.run_dlock(*self.lock, "--ttl", "3s", "--", *self.judged())
            parts.within("the job runs", self.runs)
            rotate()
            held.end(123)
            self.assertIn("--password-file", held.err)

        self.each(question)


parts.main()
