# SPDX-License-Identifier: Apache-2.0
"""`ssh HOST dlock run` and `sudo dlock run`, as dlock-jobs(7) describes them. Each ssh starts an
sshd of its own behind its pipes."""
import os, shlex, shutil, signal, subprocess, tempfile
import harness
from harness import DLOCK, alive, children, read, within, write

SSHD = next(filter(os.path.exists, ("/usr/sbin/sshd", "/usr/bin/sshd")), None)
keys = tempfile.mkdtemp(prefix="dlock.")


def setUpModule():
    if SSHD and os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    for name in "host", "id":
        if SSHD and shutil.which("ssh"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{keys}/{name}"],
                           check=True)


def tearDownModule():
    shutil.rmtree(keys)


class Ssh(harness.Case):
    def setUp(self):
        if not SSHD or not shutil.which("ssh"):
            harness.missing("sshd or ssh")
        super().setUp()
        os.mkfifo("gate")
        write("server", f"HostKey {keys}/host\nAuthorizedKeysFile {keys}/id.pub\nPidFile none\n"
              "UsePAM no\nStrictModes no\nPermitRootLogin yes\n")
        write("client", f"""Host there
  ProxyCommand {SSHD} -i -f {self.dir}/server -E {self.dir}/log
  IdentityFile {keys}/id
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  BatchMode yes
  LogLevel ERROR
""")

    def there(self, *words, options=()):
        """The arguments of ssh, for dlock there."""
        mark = f"MARK_OF_TEST={self.dir}/"
        return ["-F", "client", *options, "there",
                f"cd {self.dir} && exec env {mark} {shlex.join([DLOCK, *words])}"]

    def run_there(self, job, *words, **more):
        return self.there("run", "-b", self.file, "--key", "k", *words, "--", "sh", "-c", job,
                          **more)

    def begin(self, words, **more):
        """An ssh that waits for dlock there."""
        client = self.start(*words, dlock="ssh", **more)
        client.prints("\n")
        self.is_held("k")
        return client

    def loses_connection(self, client):
        server, = children(client.pid)
        client.send(signal.SIGKILL).end(-9)
        within("sshd ends", lambda: not alive(server))

    def exit_event(self):
        within("the event of its exit", lambda: '"event":"exit"' in read("ev"))

    def test_status(self):
        """Output and status; busy."""
        done = self.dlock(*self.run_there("echo up; exit 7"), dlock="ssh", wanted=7)
        self.assertEqual(("up\n", ""), (done.out, done.err))
        self.acquired("--key", "k")
        self.dlock(*self.run_there("touch ran", "-n"), dlock="ssh", wanted=75)
        self.not_run()

    def test_without_a_terminal(self):
        """When the client dies the job goes on, with the lock, to its end."""
        client = self.begin(self.run_there("echo up; read go <gate; exit 7", "--status", "ev"))
        self.loses_connection(client)
        self.is_held("k")
        write("gate", "go\n")
        self.exit_event()
        self.assertRegex(read("ev"), '"code":7')
        self.is_free("k")

    def test_terminal(self):
        """When the client dies the job is hung up, or killed where it ignores that; the key is
        free."""
        for ignores in "", 'trap "" HUP; ':
            with self.subTest(ignores):
                client = self.begin(self.run_there(
                    ignores + "echo $$ >pid; echo up; read go <gate", "--status", "ev", "-k",
                    "300ms", options=["-tt"]))
                self.loses_connection(client)
                self.exit_event()
                self.assertFalse(alive(int(read("pid"))))
                self.is_free("k")
                self.assertEqual(bool(ignores), '"event":"kill"' in read("ev"))
                os.unlink("ev")

    def test_hold(self):
        """It releases the lock when the client dies: its standard input ends."""
        client = self.begin(self.there("acquire", "--hold", "-b", self.file, "--key", "k"),
                            stdin=subprocess.PIPE)
        self.addCleanup(client.process.stdin.close)
        self.loses_connection(client)
        self.until_free("k")


class Sudo(harness.Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("sudo") or self.program("sudo", "-n", "true", wanted=None).status:
            self.skipTest("no sudo without a password")

    def test_status(self):
        done = self.dlock("run", "-b", self.file, "--key", "k", "--", "sh", "-c",
                          "echo up; exit 7", before=["sudo", "-n"], wanted=7)
        self.assertEqual("up\n", done.out)

    def test_term(self):
        """sudo forwards it."""
        run = self.run_dlock("-b", self.file, "--key", "k", "--", "sh", "-c",
                             "echo $$ >pid; echo up; exec sleep 600", before=["sudo", "-n"])
        run.prints("up")
        self.program("sudo", "-n", "kill", str(run.pid))
        run.end(143, -15)
        self.assertFalse(alive(int(read("pid"))))
        self.is_free("k")


harness.main()
