# SPDX-License-Identifier: Apache-2.0
"""The server's certificate expires while a lock is held: dlock's wall clock is moved beyond its
end."""
import os, shutil, struct, subprocess
import parts

day = 86400


class Certificates(parts.Case):
    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.dir)

    def setUp(self):
        super().setUp()
        if shutil.which("openssl") is None:
            parts.missing("openssl")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
                     "-days", "3650", "-subj", "/CN=authority")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", "key.pem", "-out", "csr",
                     "-subj", "/CN=server")
        with open(self.dir + "/names", "w") as file:
            file.write("subjectAltName=IP:127.0.0.1\n")
        for name, days in ("short", "1"), ("long", "30"):
            self.openssl("x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days",
                         days, "-extfile", "names",
                         "-out", name + ".pem")
        self.clock(0)
        port = parts.free_port()
        self.server = parts.Redis(f"tls-port {port}", f"tls-cert-file {self.dir}/short.pem",
                                  f"tls-key-file {self.dir}/key.pem",
                                  f"tls-ca-cert-file {self.dir}/ca.pem", "tls-auth-clients no")
        self.lock = ["-b", f"rediss://127.0.0.1:{port}/0?restart_grace=0", "--tls-ca",
                     self.dir + "/ca.pem", "--key", "k"]

    def clock(self, seconds):
        with open(self.dir + "/shift", "r+b" if os.path.exists(self.dir + "/shift") else "w+b",
                  buffering=0) as file:
            file.write(struct.pack("<q", seconds * 10**9).ljust(4096, b"\0"))

    def hold(self):
        held = self.run_dlock(*self.lock, "--ttl", "6s", "--", *self.judged(),
                              env={"CLOCK_SHIFT_FILE": self.dir + "/shift",
                                   "LD_PRELOAD": os.environ["CLOCK_SHIFT"]})
        held.until("the job runs", self.runs)
        return held

    def cut(self):
        self.server.tell("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def test_expired(self):
        """An open connection goes on; a new one is refused, which is said, and the job ends in
        time."""
        held = self.hold()
        self.clock(2 * day)
        before = held.renewals()
        held.until("it is renewed", lambda: held.renewals() >= before + 2)
        waiter = self.run_dlock("-b", self.server.url, "--key", "k", "--", *self.judged("exit 0"))
        waiter.event("waiting")
        self.cut()
        held.end(123)
        self.assertIn("expired", held.err)
        waiter.end(0)
        self.alone()

    def test_renewed(self):
        """The server has a new certificate in time: nobody notices."""
        held = self.hold()
        self.server.tell("CONFIG", "SET", "tls-cert-file", self.dir + "/long.pem")
        self.clock(2 * day)
        self.cut()
        before = held.renewals()
        held.until("it is renewed", lambda: held.renewals() >= before + 2)
        self.assertNotIn("jeopardy", [e["event"] for e in held.events()])


parts.main()
