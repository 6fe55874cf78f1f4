# SPDX-License-Identifier: Apache-2.0
"""Which passwords and TLS files go to which backend. Nothing listens at port 1: a command line that
is accepted ends with 69. (Those of no use for a backend: pure/cli/command_line_test.)"""
import os, shutil, socket, ssl, struct, threading
from contextlib import suppress
import harness
from harness import within, write

HERE = "redis://127.0.0.1:1"
FAR = "zookeeper://nowhere.invalid:1"


class Server:
    """Serves each connection on a thread of its own, until the end of the test."""

    def __init__(self, test, serve=None):
        self.serve = serve or self.serve
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.at = f"127.0.0.1:{self.port}"
        test.addCleanup(self.listener.close)
        test.addCleanup(lambda: self.listener.shutdown(socket.SHUT_RDWR))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with suppress(OSError):  # the end of the test
            while True:
                client = self.listener.accept()[0]
                threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    def talk(self, client):
        with suppress(OSError), client:  # dlock has gone
            self.serve(client)


class Refuser(Server):
    """It gives this answer to everything, or closes if it is empty."""

    def __init__(self, test, answer):
        self.answer = answer
        super().__init__(test)
        self.url = f"redis://{self.at}"

    def serve(self, client):
        while client.recv(4096) and self.answer:
            client.sendall(self.answer + b"\r\n")


class Resp(Server):
    """It reads commands as Redis does; `reply`, called with the client and the words of each,
    returns the answer."""

    def __init__(self, test, reply):
        self.reply = reply
        super().__init__(test)

    def serve(self, client):
        with client.makefile("rb") as lines:
            while head := lines.readline():
                words = []
                for _ in range(int(head[1:])):
                    size = int(lines.readline()[1:])
                    words.append(lines.read(size).decode())
                    lines.readline()
                client.sendall(self.reply(client, words).encode())


def bulk(*texts):
    all_of_them = "".join(f"${len(text)}\r\n{text}\r\n" for text in texts)
    return all_of_them if len(texts) == 1 else f"*{len(texts)}\r\n{all_of_them}"


class Sentinel(Resp):
    """It asks for this login, unless empty, and names this master."""

    def __init__(self, test, login, master):
        self.login, self.master = login, master
        self.known = set()
        super().__init__(test, self.answer)
        self.url = f"redis+sentinel://{self.at}/main"

    def answer(self, client, words):
        if words[0] == "AUTH":
            if not self.login:
                return ("-ERR AUTH <password> called without any password configured for the "
                        "default user. Are you sure your configuration is correct?\r\n")
            if words[1:] != self.login:
                return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
            self.known.add(client)
            return "+OK\r\n"
        if self.login and client not in self.known:
            return "-NOAUTH Authentication required.\r\n"
        if words[0] == "SENTINEL":
            return bulk(*self.master.split(":"))
        if words[0] == "INFO":
            return bulk("redis_version:7.0.15\r\nredis_mode:sentinel\r\n")
        return f"-ERR unknown command '{words[0]}', with args beginning with: \r\n"


class TlsServer(Server):
    """It ends each connection after the handshake; `seen`: the names that were sent to it, and
    whether the handshake was completed."""

    def __init__(self, test, certificate, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2  # in which it sees a refusal
        self.context.sni_callback = self.named
        self.seen = []
        super().__init__(test)

    def named(self, connection, name, _):
        connection.name = name

    def serve(self, client):
        client.settimeout(10)
        with self.context.wrap_socket(client, True, do_handshake_on_connect=False) as secure:
            complete = True
            try:
                secure.do_handshake()
            except OSError:
                complete = False
            self.seen.append((getattr(secure, "name", None), complete))


class PlainMysql:
    """A server that offers no TLS, and what the first client sends to it. asks: for this way to log
    in, when the client has begun with another one."""

    def __init__(self, test, asks=None):
        self.asks = asks
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.bytes = b""
        test.addCleanup(self.listener.close)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        # All that a login needs, and files (0x80), but no TLS (0x800).
        can = 0x1 | 0x8 | 0x80 | 0x200 | 0x2000 | 0x8000 | 0x80000
        greeting = (b"\x0a10.11.0-MariaDB\0" + struct.pack("<I", 7) + b"12345678\0" +
                    struct.pack("<HBHHB", can & 0xffff, 45, 2, can >> 16, 21) + bytes(10) +
                    b"123456789012\0mysql_native_password\0")
        with self.listener.accept()[0] as client:
            self.listener.close()
            client.settimeout(20)
            client.sendall(struct.pack("<I", len(greeting)) + greeting)
            try:
                self.bytes = client.recv(4096)
                if self.asks and self.bytes:
                    switch = b"\xfe" + self.asks.encode() + b"\0" + b"12345678\0"
                    client.sendall(struct.pack("<I", len(switch) | 2 << 24) + switch)
                    self.bytes += client.recv(4096)
            except ConnectionResetError:
                pass

    def received(self):
        self.thread.join(30)
        return self.bytes


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

    def at_terminal(self, *words, env=None):
        """What `inspect` prints there."""
        ours, its = os.openpty()
        self.dlock("inspect", "--connect-timeout", "50ms", *words, env=env, stderr=its, wanted=69)
        os.close(its)
        said = os.read(ours, 65536).decode()
        os.close(ours)
        self.assertNotIn("canary", said)
        return said

    def test_login_in_clear(self):
        """It is said at a terminal, however it was given, and not of this machine."""
        self.needs_backend("zookeeper", "etcd")
        etcd = "etcd://u@nowhere.invalid:1", "--password-file", "pw"
        for words in (["-b", f"{FAR}?auth_file=auth"], ["-b", FAR, "--auth-file", "auth"],
                      ["-b", "zookeeper://u@nowhere.invalid:1", "--password-file", "pw"],
                      ["-b", *etcd]):
            self.assertIn("sent unencrypted", self.at_terminal(*words))
            self.assertNotIn("unencrypted", self.accepted("", *words))
        for words in ([FAR], ["zookeeper://127.0.0.1:1?auth_file=auth"],
                      ["etcd://u@127.0.0.1:1", *etcd[1:]],
                      ["etcds://u@nowhere.invalid:1", *etcd[1:]]):
            self.assertNotIn("unencrypted", self.at_terminal("-b", *words))

    def test_in_url(self):
        """A password in a URL of the command line: a warning at a terminal, and of the doctor."""
        url, warning = "redis://u:canary@127.0.0.1:1", "a password in a URL is easily seen by others"
        words = ["--connect-timeout", "50ms"]
        self.assertNotIn(warning, self.accepted("", *words, "-b", url))
        self.assertIn(warning, self.tell("inspect", "--doctor", *words, "-b", url, wanted=None))
        for more, env, wanted in ([["-b", url], {}, True], [[], {"DLOCK_BACKEND": url}, False]):
            said = self.at_terminal(*more, env=env)
            self.assertEqual(wanted, warning in said, said)
        self.needs_backend("postgresql")
        url = "postgresql:///d?host=127.0.0.1&port=1&user=u&password=canary"
        self.assertIn(warning + " (postgresql://u:***@127.0.0.1:1/d)", self.at_terminal("-b", url))
        self.assertNotIn("canary", self.dlock("config", "-b", url).out)
        done = self.dlock("run", "--explain", "--key", "k", "-b", url, "--", "true")
        self.assertIn("in postgresql://u:***@127.0.0.1:1/d,", done.out)

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
        """A key that others may read is refused, as a password is, whoever names it."""
        write("key.pem", "canary\n", 0o644)
        url = HERE.replace("redis:", "rediss:")
        why = "'key.pem': has mode 0644, which lets others in"
        self.refused(78, "--tls-key " + why, "inspect", "-b", url, "--tls-cert", "ca.pem",
                     "--tls-key", "key.pem")
        self.refused(78, "tls_key " + why, "inspect", "-b",
                     url + "?tls_cert=ca.pem&tls_key=key.pem")
        self.needs_backend("mysql", "postgresql")
        self.refused(78, "tls_key " + why, "inspect", "-b",
                     "mysql://127.0.0.1:1/db?tls=yes&tls_cert=ca.pem&tls_key=key.pem")
        self.refused(78, "sslkey " + why, "inspect", "-b",
                     "postgresql://127.0.0.1:1/db?sslcert=ca.pem&sslkey=key.pem")

    def test_of_sentinels(self):
        """Sentinels have a login of their own, or that of the servers; and the address that they
        name is not in the URL, which is said when nobody answers there."""
        write("sentinels", "theirs\n")
        nobody = "127.0.0.1:1"
        named = f"cannot connect to {nobody}: Connection refused (the sentinels named this address"
        own, user = Sentinel(self, ["theirs"], nobody), Sentinel(self, ["u", "theirs"], nobody)
        same, none = Sentinel(self, ["canary"], nobody), Sentinel(self, [], nobody)
        for sentinel, items, env in (
                (own, "?sentinel_password_file=sentinels", {}),
                (own, "?sentinel_password_file=sentinels", {"DLOCK_SENTINEL_PASSWORD": "wrong"}),
                (own, "", {"DLOCK_SENTINEL_PASSWORD": "theirs"}),
                (user, "?sentinel_user=u&sentinel_password_file=sentinels", {}),
                (same, "", {}), (none, "?sentinel_password_file=sentinels", {})):
            with self.subTest(items, env=env):
                said = self.accepted(named, "--password-file", "pw", "-b", sentinel.url + items,
                                     env=env)
                self.assertIn("replica-announce-ip", said)
        for items, env in ("", {}), ("", {"DLOCK_SENTINEL_PASSWORD": "wrong"}):
            self.refused(77, f"sentinel {own.at} refuses user or password", "inspect", "-b",
                         own.url + items, "--password-file", "pw", env=env)
        self.refused(77, "its own: ?sentinel_user=", "inspect", "-b", own.url, "--password-file",
                     "pw")
        self.refused(64, "a user with a password", "inspect", "-b", own.url + "?sentinel_user=u")
        self.refused(64, "no use for sentinel_password_file: it has no sentinels", "inspect", "-b",
                     HERE + "?sentinel_password_file=sentinels")
        self.refused(64, "nothing without sentinels", "inspect", "-b", HERE + "?sentinel_user=u")
        self.refused(78, "DLOCK_SENTINEL_PASSWORD: no use for it", "inspect", "-b", HERE,
                     env={"DLOCK_SENTINEL_PASSWORD": "theirs"})

    def test_sentinel_as_a_server(self):
        """It is recognised, whatever the URL wants of it."""
        sentinel = Sentinel(self, [], "127.0.0.1:1")
        why = f"{sentinel.at} is a sentinel: use redis+sentinel://{sentinel.at}/MASTER"
        for words in (["run", "--key", "k", "--", "true"], ["inspect", "--doctor"]):
            for url, env in ((f"redis://{sentinel.at}", {}), (f"redis://{sentinel.at}/3", {}),
                             (f"redis://{sentinel.at}", {"DLOCK_PASSWORD": "canary"})):
                with self.subTest(url, words=words):
                    self.refused(64, why, *words[:1], "-b", url, *words[1:], env=env)

    def test_time_to_connect(self):
        """libpq's item counts before a variable, and behind the option."""
        self.needs_backend("postgresql")
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/d?connect_timeout="
        self.dlock("inspect", "-b", url + "1", env={"DLOCK_CONNECT_TIMEOUT": "10m"}, wanted=69,
                   bound=60)
        self.dlock("inspect", "-b", url + "600", "--connect-timeout", "50ms", wanted=69, bound=60)

    def test_pause_between_connections(self):
        """It grows from 20 ms to 500 ms, at least half of that, while a server refuses all."""
        self.needs_backend("postgresql")
        refused = []

        def refuse(client):
            client.recv(8)  # asks for TLS
            client.sendall(b"N")
            client.recv(4096)
            error = b"SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0"
            client.sendall(b"E" + struct.pack("!i", 4 + len(error)) + error)
            refused.append(client)

        full = Server(self, refuse)
        began = harness.boottime()
        done = self.dlock("inspect", "k", "--connect-timeout", "2s", "--op-timeout", "500ms", "-b",
                          f"postgresql://u@{full.at}/d", wanted=69,
                          bound=60)
        self.assertIn("too many clients", done.err)
        least = sum(min(0.01 * 2**n, 0.25) for n in range(len(refused) - 1))
        self.assertGreater(len(refused), 1)
        self.assertGreaterEqual(harness.boottime() - began, least, f"{len(refused)} connections")

    def test_name_of_the_server(self):
        """It is what the certificate must be for, and is sent to the server; what a certificate of
        an unknown authority needs is said."""
        self.needs_backend("etcd")
        self.program("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:P-256", "-nodes", "-keyout", "own.key", "-out", "own.pem",
                     "-subj", "/CN=db7", "-addext", "subjectAltName=DNS:db7.example")
        for scheme in "rediss", "etcds":
            for words, asked, complete in (
                    (["--tls-ca", "own.pem"], "localhost", False),
                    (["--tls-ca", "own.pem", "--tls-name", "db7.example"], "db7.example", True),
                    (["--tls-name", "db7.example"], "db7.example", False)):
                with self.subTest(scheme, words=words):
                    server = TlsServer(self, "own.pem", "own.key")
                    done = self.dlock("inspect", "--connect-timeout", "2s", "-b",
                                      f"{scheme}://localhost:{server.port}", *words,
                                      wanted=69 if complete else 77, bound=20)
                    within("the server has seen it", lambda: server.seen)
                    self.assertEqual({(asked, complete)}, set(server.seen))
                    if not complete:
                        self.assertIn("--tls-ca names the authority", done.err)
                        self.assertIn("or for --tls-name, unless the URL says verify-ca", done.err)

    def test_other_server(self):
        """What the URL says is not what is there, or not all: what to write."""
        self.needs_backend("etcd", "postgresql")
        self.program("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:P-256", "-nodes", "-keyout", "own.key", "-out", "own.pem",
                     "-subj", "/CN=db7")
        secure = TlsServer(self, "own.pem", "own.key")
        with self.subTest("etcd with TLS"):
            self.accepted("does it speak TLS on this port? (etcds://", "-b",
                          f"etcd://localhost:{secure.port}")
        closed = Refuser(self, b"").url
        not_found = Refuser(self, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n").url
        for url, begin, words in (
                (closed, "etcds://", "the server closed the connection; does it speak TLS on "),
                (closed, "rediss://", "the server closed the connection; does it speak TLS on "),
                (not_found, "etcd://", "HTTP 404: no client port of etcd (usually 2379)"),
                (not_found, "etcd://u:p@", "HTTP 404: no client port of etcd (usually 2379)")):
            with self.subTest(begin):
                self.accepted(words, "-b", url.replace("redis://", begin))
        limited = Refuser(self, b"-NOPERM this user has no permissions").url
        with self.subTest("bench without rights below its prefix"):
            self.refused(77, "needs a --prefix among them", "bench", "-b", limited)
        plain = Resp(self, lambda client, words: f"-ERR unknown command '{words[0]}'\r\n")
        with self.subTest("no sentinel"):
            self.refused(64, f"{plain.at} is no sentinel", "inspect", "-b",
                         f"redis+sentinel://{plain.at}/main")
        postgres = Refuser(self, b"S").url.replace("redis://", "postgresql://u@")
        with self.subTest("an authority that was not named"):
            self.refused(78, "(--tls-ca names the authority", "inspect", "-b",
                         postgres + "/d?sslmode=verify-full")

    def test_server_without_tls(self):
        """Nobody logs in there when TLS is wanted, however little of it is verified."""
        self.needs_backend("mysql")
        with open("/etc/ssl/certs/ca-certificates.crt") as file:
            write("ca.pem", file.read())
        for tls, *words in (["tls=yes"], ["tls=yes", "--tls-insecure"],
                            ["tls=verify-ca", "--tls-ca", "ca.pem"], ["ssl-mode=REQUIRED"],
                            ["ssl-mode=VERIFY_CA", "--tls-ca", "ca.pem"]):
            with self.subTest(tls, words=words):
                server = PlainMysql(self)
                done = self.dlock("inspect", "-b", f"mysql://u:canary@{server.at}/d?{tls}",
                                  *words, wanted=77, bound=20)
                self.assertNotIn("canary", done.out + done.err)
                self.assertEqual(b"", server.received())

    def test_password_in_the_clear(self):
        """Without TLS no server gets the password itself, or what it can be made of."""
        self.needs_backend("mysql")
        for plugin in "mysql_clear_password", "dialog", "mysql_old_password":
            with self.subTest(plugin):
                server = PlainMysql(self, asks=plugin)
                done = self.dlock("inspect", "-b", f"mysql://u:canary@{server.at}/d", "k",
                                  wanted=77, bound=20)
                self.assertIn("add ?tls=yes", done.err)
                self.assertIn(b"mysql_native_password", server.received())
                self.assertNotIn(b"canary", server.received())

    def test_files(self):
        """No server is offered files of this machine."""
        self.needs_backend("mysql")
        server = PlainMysql(self)
        self.dlock("inspect", "-b", f"mysql://u:canary@{server.at}/d", "k", wanted=69, bound=20)
        self.assertFalse(server.received()[4] & 0x80)

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
                (False, "postgresql://u@db1:1/d", "postgresql://u@db1:1/d?hostaddr=127.0.0.1"),
                (True, "postgresql://u@127.0.0.1:1/d",
                 "postgresql:///d?user=u&host=127.0.0.1&port=1"),
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
