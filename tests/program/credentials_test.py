# SPDX-License-Identifier: Apache-2.0
"""Which passwords and TLS files go to which backend. Nothing listens at port 1: a command line that
is accepted ends with 69. (Those of no use for a backend: pure/cli/command_line_test.)"""
import os, shutil, socket, threading
import harness
from harness import write

HERE = "redis://127.0.0.1:1"
FAR = "zookeeper://nowhere.invalid:1"


class Refuser:
    """A server, at `url`, that gives this answer to everything."""

    def __init__(self, test, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        test.addCleanup(self.listener.close)
        test.addCleanup(lambda: self.listener.shutdown(socket.SHUT_RDWR))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],),
                                 daemon=True).start()
        except OSError:
            pass  # the end of the test

    def serve(self, client):
        try:
            with client:
                while client.recv(4096):
                    client.sendall(self.answer + b"\r\n")
        except OSError:
            pass  # dlock has gone


class Credentials(harness.Case):
    def setUp(self):
        super().setUp()
        self.needs_backend("redis")
        self.env["XDG_CONFIG_HOME"] = self.dir + "/xdg"
        os.makedirs("xdg/dlock")
        write("pw", "canary\n")
        write("auth", "digest:u:canary\n")
        shutil.copy(harness.ROOT + "/LICENSE", "ca.pem")

    def table(self, *lines, file="xdg/dlock/config.toml"):
        write(file, "".join(line + "\n" for line in lines))

    def accepted(self, text, *words, **more):
        done = self.dlock("inspect", "--connect-timeout", "50ms", *words, wanted=69, bound=20,
                          **more)
        self.assertNotIn("canary", done.out + done.err)
        self.assertIn(text, done.out + done.err)
        return done.out + done.err

    def test_login_in_clear(self):
        """Of ZooKeeper: it is said, however it was given."""
        self.needs_backend("zookeeper")
        for words in (["-b", f"{FAR}?auth_file=auth"], ["-b", FAR, "--auth-file", "auth"],
                      ["-b", "zookeeper://u@nowhere.invalid:1", "--password-file", "pw"]):
            self.accepted("sent unencrypted", *words)
        for url in FAR, "zookeeper://127.0.0.1:1?auth_file=auth":
            self.assertNotIn("unencrypted", self.accepted("", "-b", url))

    def test_in_url(self):
        """A password in a URL of the command line: a warning at a terminal, and of the doctor."""
        url, warning = "redis://u:canary@127.0.0.1:1", "a password in a URL is easily seen by others"
        words = ["--connect-timeout", "50ms"]
        self.assertNotIn(warning, self.accepted("", *words, "-b", url))
        self.assertIn(warning, self.tell("inspect", "--doctor", *words, "-b", url, wanted=None))
        for more, env, wanted in ([["-b", url], {}, True], [[], {"DLOCK_BACKEND": url}, False]):
            ours, its = os.openpty()
            self.dlock("inspect", *words, *more, env=env, stderr=its, wanted=69)
            os.close(its)
            said = os.read(ours, 65536).decode()
            os.close(ours)
            self.assertNotIn("canary", said)
            self.assertEqual(wanted, warning in said, said)

    def test_of_a_pipe(self):
        """A secret comes from a pipe, which is not read again when the server refuses it."""
        url = Refuser(self, b"-WRONGPASS invalid username-password pair").url
        done = self.shell(f'exec "$DLOCK" inspect -b {url} --password-file <(echo canary)',
                          wanted=77)
        self.assertNotIn("canary", done.out + done.err)
        self.assertNotIn("password-file", done.err.split("user and password")[0])
        self.assertIn("first line is empty",
                      self.shell(f'"$DLOCK" inspect -b {url} --password-file <(:)', wanted=78).err)

    def test_private_key(self):
        """A key that others may read is refused, as a password is."""
        write("key.pem", "canary\n", 0o644)
        url = HERE.replace("redis:", "rediss:")
        self.refused(78, "--tls-key 'key.pem': has mode 0644, which lets others in", "inspect",
                     "-b", url, "--tls-cert", "ca.pem", "--tls-key", "key.pem")

    def test_of_a_table(self):
        """The secrets of a table are for its backend alone."""
        self.table("[profile.prod]", 'backend = "redis://db1"',
                   f'password-file = "{self.dir}/pw"')
        url = Refuser(self, b"-NOAUTH Authentication required.").url
        for options in [], ["-v"]:
            done = self.dlock("inspect", *options, "--profile", "prod", "-b", url, wanted=77,
                              bound=20)
            self.assertIn(f"not used for {url}: ", done.err)
            self.assertIn("config.toml:3: password-file is for redis://db1", done.err)
        # The same server, whoever names it, with whatever database.
        self.table("[profile.prod]", f'backend = "{url}/3"', f'password-file = "{self.dir}/none"')
        self.refused(78, "config.toml:3: password-file", "inspect", "--profile", "prod", "-b", url)
        self.refused(78, "config.toml:3: password-file", "inspect", "--profile", "prod",
                     env={"DLOCK_BACKEND": url})

    def test_same_backend(self):
        """A table's backend is the same: scheme, user, hosts and ports, with defaults."""
        for is_same, its, url in (
                (True, "redis://LOCALHOST:6379", "redis://localhost/3?restart_grace=0"),
                (True, "redis+cluster://127.0.0.1:1,127.0.0.2:1",
                 "redis+cluster://127.0.0.2:1,127.0.0.1:1"),
                (False, "redis://127.0.0.1:2", HERE), (False, "rediss://127.0.0.1:1", HERE),
                (False, "redis://u@127.0.0.1:1", HERE),
                (False, "redis+unix:///run/none", "redis+unix:///run/nowhere"),
                (False, "redis+cluster://127.0.0.1:1,127.0.0.2:1", "redis+cluster://127.0.0.1:1")):
            with self.subTest(its, url=url):
                self.table(f'backend = "{its}"', f'password-file = "{self.dir}/none"')
                if is_same:
                    self.refused(78, "config.toml:2: password-file", "inspect", "-b", url)
                else:
                    self.accepted("not used for", "-v", "-b", url)

    def test_lower_table(self):
        """It counts where the one above is for another backend; a flag counts always."""
        self.table("[profile.p]", 'backend = "redis://db1"', f'password-file = "{self.dir}/pw"')
        self.table(f'backend = "{HERE}"', f'password-file = "{self.dir}/none"', file="low.toml")
        words = ["--config", "low.toml", "--profile", "p", "-b", HERE]
        self.refused(78, "low.toml:2: password-file", "inspect", *words)
        self.accepted("", *words, "--password-file", "pw")
        self.accepted("", *words, env={"DLOCK_PASSWORD_FILE": "pw"})

    def test_no_backend(self):
        """A table with secrets and no backend: 78; TLS files for its URL without TLS: 78."""
        self.table('tls-ca = "/ca.pem"')
        self.refused(78, "config.toml:1: tls-ca: this table names no backend", "inspect", "-b",
                     HERE)
        self.table('backend = "redis://db1"', "[profile.p]", 'password-file = "/pw"')
        self.refused(78, "config.toml:3: password-file: this table names no backend", "inspect",
                     "--profile", "p")
        self.table(f'backend = "{HERE}"', 'tls-ca = "/ca.pem"')
        del self.env["DLOCK_BACKEND"]
        self.refused(78, "config.toml:2: tls-ca: no use for it", "inspect")

    def test_bench(self):
        """Refused only if none of its backends can use it."""
        self.dlock("bench", "-d", "100ms", "-b", HERE, "-b",
                   "rediss://127.0.0.1:1?tls_ca=ca.pem", "--tls-insecure", "--connect-timeout",
                   "50ms", wanted=69, bound=20)


harness.main()
