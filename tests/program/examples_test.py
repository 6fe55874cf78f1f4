# SPDX-License-Identifier: Apache-2.0
"""Every example of the README and the manual is run here once, or named with the reason why it is
not."""
import glob, itertools, json, os, re, shutil, signal, subprocess
import harness
from harness import DLOCK, ROOT, read, write

covered = set()
# An old success, none at all, and one of today.
ALERT_TEST = """rule_files: [rules.yml]
tests:
- interval: 1m
  input_series: [{series: 'FIGURE}', values: '0+0x3000'}]
  alert_rule_test:
  - eval_time: 2000m
    alertname: NightlyTooOld
    exp_alerts: [{exp_labels: {key: nightly}, exp_annotations: {summary: "SUMMARY"}}]
  - {eval_time: 60m, alertname: NightlyTooOld, exp_alerts: []}
- interval: 1m
  input_series: []
  alert_rule_test:
  - eval_time: 1m
    alertname: NightlyTooOld
    exp_alerts: [{exp_labels: {key: nightly}, exp_annotations: {summary: "SUMMARY"}}]
"""


def lines_of(page):
    """The lines of the examples of a page; of the README, besides, the commands between words."""
    if page == "README.md":
        text = read(ROOT + "/README.md")
        lines = [line for block in text.split("\n```")[1::2] for line in block.split("\n")[1:]]
        lines += re.findall("`((?:dlock|scripts/[a-z]+|cmake|apt|man|REVOKE)(?: [^`\n]+)?)`", text)
    else:
        lines, literal = [], False
        for line in read(f"{ROOT}/man/{page}").split("\n"):
            if line.startswith(".Bd -literal"):
                literal = True
            elif line.startswith(".Ed"):
                literal = False
            elif line.startswith(".Dl "):
                lines.append(line[4:])
            elif literal:
                lines.append(line)
    return [re.sub(r"^\\&", "", line.replace(r"\(dq", '"').replace(r"\e", "\\"))
            .replace(r"\-", "-") for line in lines if line]


def not_run(page, _reason, first, last=""):
    """The text of an example: from the line `first`, or the first that begins so, to the next one
    that begins with `last`, if there is any."""
    lines = lines_of(page)
    begin = next((n for n, line in enumerate(lines) if line == first), None)
    if begin is None:
        begin = next(n for n, line in enumerate(lines) if line.startswith(first))
    end = next(n for n in range(begin, len(lines)) if lines[n].startswith(last))
    covered.update(f"{page}: {line}" for line in lines[begin:end + 1])
    return "\n".join(lines[begin:end + 1])


def example(page, first, last=""):
    """One that is run."""
    return not_run(page, "", first, last)


def words(text):
    """Hosts, numbers and times are of another day: the words of each line."""
    found = []
    for line in text.splitlines():
        for old, new in ((r"^\$ .*", ""), ("on host .*", "on host"),
                         ("its job on [^ ]+", "its job on"),
                         (r"[a-z0-9.-]+:[0-9]+ \([a-z0-9_-]+\)", "HOLDER"),
                         ("id [0-9a-f]+", "id"), ("time zone .*", "time zone"),
                         ("file:[^ ,']*", "file:")):
            line = re.sub(old, new, line, count=1)
        line = re.sub("in [0-9dhmsu.]+|now(,|$)", "in", line)
        line = re.sub(" +", " ", re.sub("[0-9][0-9TZdhmsu.:-]*", "", line))
        found.append(line.replace("in,", "in").replace(",", ""))
    return [line for line in found if line]


def fields(view):
    """The names in an object, and in those in it; of a list its first."""
    if isinstance(view, list):
        return [fields(one) for one in view[:1]]
    if not isinstance(view, dict):
        return None
    return {name: fields(value) for name, value in view.items()}


def shown(first, last):
    """Of dlock.1, from the prompt with this command to a line that begins with `last`."""
    lines = itertools.dropwhile(lambda line: not re.match(r"\$ " + first, line),
                                lines_of("dlock.1"))
    found = [next(lines)]
    for line in lines:
        found.append(line)
        if line.startswith(last):
            break
    return words("\n".join(found))


class Examples(harness.Case):
    """What they call is in bin/, and says in `calls` how it was called."""
    makes_locks = False

    def setUp(self):
        super().setUp()
        os.mkdir("bin")
        os.symlink(DLOCK, "bin/dlock")
        for name in "report", "worker", "make", "rsync", "curl", "c":
            self.stand_in(f"bin/{name}", f'echo "{name} $*" >>"{self.dir}/calls"')
        self.stand_in("train", 'echo "train $CUDA_VISIBLE_DEVICES" >>calls')
        self.stand_in("migrate", 'echo "migrate $*" >>calls')
        self.stand_in("bin/render", "echo page")
        self.stand_in("bin/ssh", 'shift; exec "$@"')  # the host is this one
        self.env["PATH"] = f"{self.dir}/bin:{self.env['PATH']}"

    def stand_in(self, name, text):
        write(name, f"#!/bin/sh\n{text}\n", 0o700)

    def run_busy(self, key, text, status=75):
        """Another holds the key, so what the example does with the lock is not done."""
        handle, was = self.acquired("--key", key), read("calls")
        self.shell(re.sub("-w [0-9]+[sm]", "-w 0", text), wanted=status)
        self.assertEqual(was, read("calls"))
        self.dlock("release", "--key", key, "--handle", handle)

    def called(self, *lines):
        self.assertEqual("".join(line + "\n" for line in lines), read("calls"))

    def explained(self, line, **more):
        """A command line that dlock takes."""
        return self.shell(line.replace("dlock run", "dlock run --explain", 1), **more)

    def test_cron(self):
        """A second one, while the lock is kept, is no failure and runs nothing."""
        pages = {page: example(page, "*/5 * * * *  " + dlock + "dlock run") for page, dlock in (
            ("dlock.1", "/usr/bin/"), ("dlock-run.1", "/usr/bin/"), ("README.md", ""))}
        same, = {text.replace("/usr/bin/", "") for text in pages.values()}
        line = same.removeprefix("*/5 * * * *  ").replace("/usr/local/bin/", "")
        self.run_busy("report", line, 0)
        self.shell(line)
        self.shell(line)
        self.called("report ")

    def test_deployments(self):
        """One after the other."""
        text = example("dlock.1", "dlock run -w 15m --key deploy")
        self.assertEqual(text, example("README.md", "dlock run -w 15m --key deploy"))
        self.env["CI_JOB_URL"] = "https://ci/7"
        self.run_busy("deploy", text)
        self.shell(text)
        self.called("make deploy")

    def test_limit(self):
        """Four at a time."""
        text = example("dlock.1", "dlock run --limit")
        self.assertEqual(text, example("README.md", "dlock run --limit"))
        self.shell(text)
        self.called("train 0")

    def test_steps_of_a_script(self):
        text = example("dlock.1", "grant=$(dlock acquire", "trap 'dlock")
        self.assertEqual(text, example("README.md", "grant=$(dlock acquire", "trap 'dlock"))
        text += "\ndlock inspect --check migrate || echo held >>calls"
        self.run_busy("migrate", text)
        self.shell(text)
        self.called("held")
        self.is_free("migrate")
        text = example("dlock-acquire.1", "grant=$(dlock acquire", "./migrate")
        self.run_busy("migrate", text)
        self.shell(text)
        self.assertRegex(read("calls"), r"\nmigrate --fence [1-9][0-9]+\n\Z")
        self.is_free("migrate")

    def test_kept(self):
        """The same, kept by a process."""
        text = example("dlock-acquire.1", "handle=$(dlock", "dlock release")
        self.run_busy("migrate", text)
        self.shell(text)
        self.called("migrate ")
        self.is_free("migrate")

    def test_hold(self):
        """While a person works, until the end of its input."""
        text = example("dlock-acquire.1", "dlock acquire --hold")
        self.run_busy("deploy", text.replace("--hold", "--hold -n", 1))
        self.shell(text)
        self.is_free("deploy")

    def test_flock(self):
        """Shared with flock(1)."""
        self.shell(example("dlock.1", "mkdir -p /run/lock/app", "flock /run/lock/app/sync")
                   .replace("/run/lock", self.dir))
        self.called("rsync -a src/ dst/", "rsync -a src/ dst/")

    def test_configuration(self):
        del self.env["DLOCK_BACKEND"]
        os.makedirs("xdg/dlock")
        write("xdg/dlock/config.toml", example("dlock-config.1", 'backend = "redis://db1"',
                                               "quiet = true") + "\n")
        done = self.dlock("config", "--config", "xdg/dlock/config.toml", "--profile", "batch")
        self.assertIn('backend = "redis://db1?restart_grace=2m"', done.out)
        self.assertRegex(done.out, '(?m)^wait = "?15m')
        self.env["XDG_CONFIG_HOME"] = self.dir + "/xdg"
        done = self.shell(example("dlock-config.1", "dlock config --profile"))
        self.assertIn("quiet = true", done.out)

    def test_fleet(self):
        """The configuration of the README and the manual, the cron line, the accounts."""
        self.needs_backend("redis", "mysql")
        del self.env["DLOCK_BACKEND"]
        fleet = not_run("README.md", "with /etc/dlock in another place, and no server is asked",
                        "require-backend", "tls-ca =")
        self.assertEqual(fleet.partition("\n")[2],
                         not_run("dlock-config.1", "the same", "[profile.fleet]", "tls-ca ="))
        fleet = fleet.replace("/etc/dlock", self.dir) + "\n"
        write("config.toml", fleet)
        mysql = 'backend = "mysql://dlock@locks.example/locks?tls=yes"'
        write("mysql.toml", re.sub("(?m)^backend.*", mysql, fleet))
        write("password", "secret\n")
        self.program("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-subj", "/CN=ca",
                     "-days", "2", "-out", "ca.pem")
        cron = not_run("README.md", "its server is of another place", "0 3 * * *  dlock")
        by_hand = not_run("dlock-config.1", "likewise", "dlock run --profile")
        for page in "README.md", "dlock-config.1":
            not_run(page, "its server is of another place", "dlock inspect --doctor")
        for file in "config.toml", "mysql.toml":
            for line in cron.removeprefix("0 3 * * *  "), by_hand:
                done = self.explained(line.replace("dlock run", "dlock run --config " + file, 1))
                self.assertIn("locks.example", done.out)
            done = self.dlock("run", "--config", file, "--key", "k", "--", "true", wanted=78)
            self.assertIn("no backend is given", done.err)  # without a profile
            self.dlock("inspect", "--doctor", "--profile", "fleet", "k", wanted=64,
                       env={"DLOCK_CONFIG": file})  # the options are understood
        not_run("dlock-redis.7", "for an administrator of the server", "CONFIG SET",
                "CONFIG REWRITE")
        not_run("dlock-redis.7", "likewise", "ACL SETUSER dlock +config|get",
                "ACL SETUSER dlock -config|get")
        not_run("dlock-mysql.7", "likewise", "CREATE DATABASE", "GRANT CREATE")
        not_run("dlock-mysql.7", "likewise", "GRANT REPLICA", "REVOKE REPLICA")
        not_run("dlock-zookeeper.7", "likewise", "addauth", "create /dlock")
        not_run("dlock-zookeeper.7", "likewise", "addauth digest dlock:OLD", "setAcl")
        not_run("dlock-zookeeper.7", "likewise", "addauth digest dlock:NEW", "setAcl")
        not_run("dlock-zookeeper.7", "a line of a file", "digest:dlock:")
        not_run("dlock-zookeeper.7", "likewise", "4lw.commands", "maxClientCnxns")
        for options in "?tick=", "--ttl 34s":
            not_run("dlock-zookeeper.7", "for a command of one's own", options)
        for page, url in (("redis", "rediss://dlock@"), ("mysql", "mysql://dlock@"),
                          ("postgresql", "postgresql://dlock@"), ("etcd", "etcds://dlock@"),
                          ("zookeeper", "zookeeper://")):
            not_run(f"dlock-{page}.7", "its server is of another place",
                    "dlock inspect --doctor -b " + url)

    def test_continuous_integration(self):
        text = example("dlock.1", 'export DLOCK_BACKEND="redis://$CI_REDIS?restart_grace=0"',
                       "dlock run")
        if self.built_with("redis"):
            self.explained(text, env={"CI_REDIS": "127.0.0.1:1"})
        self.shell(text, env={"CI_REDIS": ""}, wanted=78)  # forgotten: no lock, and no job
        os.mkdir("locks", 0o700)
        self.shell(text.replace("redis://$CI_REDIS?restart_grace=0", self.file))
        self.called("make check")

    def test_result(self):
        """Read from the events."""
        text = example("dlock-run.1", "dlock run -n --status", "esac")
        self.stand_in("report", "exit 75")  # as dlock itself does
        self.assertLine("the report has run to its end", self.shell(text))
        handle = self.acquired("report")
        self.assertLine("another host writes the report", self.shell(text))
        self.dlock("release", "report", "--handle", handle)
        os.unlink("report")
        self.assertLine("no report", self.shell(text))

    def test_check(self):
        """Before the step that cannot be undone."""
        write("out.tmp")
        self.key("-c", example("dlock-check.1", 'dlock check "$DLOCK_SEQUENCER"'))
        self.assertTrue(os.path.exists("out"))

    def test_token(self):
        """A writer with one."""
        self.shell(example("dlock-run.1", "dlock run --key export"))
        self.assertRegex(read("calls"), r"\Acurl -H X-Token: [1-9][0-9]+ -T out\.csv "
                         r"https://store/out\.csv\n\Z")

    def test_fence(self):
        """On the storage host."""
        os.mkdir("site")
        text = example("dlock-fence.1", "#!/bin/sh", "  sh -c 'cat").replace("/srv", self.dir)
        write("bin/publish", text + "\n", 0o700)
        not_run("dlock-fence.1", "a prompt", "$ cat")
        not_run("dlock-fence.1", "prompts, and tokens of another day", "B$ dlock run",
                "dlock: token 41")
        self.dlock("run", "--key", "site", "-c", 'render | ssh storage publish "$DLOCK_TOKEN"')
        self.assertEqual("page\n", read("site/index.html"))
        done = self.program("bin/publish", "41", wanted=123)
        self.assertRegex(done.err, r"\Adlock: token 41 is older than [0-9]+, the newest that "
                         rf"'{self.dir}/site/\.fence' has seen; the command was not run\n\Z")

    def test_others(self):
        """Looking, renewing, forcing."""
        for first in "dlock inspect --held", "dlock inspect 'svc-":
            done = self.dlock("run", "--key", "nightly", "-c", example("dlock-inspect.1", first))
            self.assertNotEqual("", done.out)
        held = self.hold_by_job("fresh")
        view = json.loads(not_run("dlock-inspect.1", "its fields are compared",
                                  '{"key":"nightly"', ' "complete":true}'))
        self.assertEqual(fields(view), fields(self.dlock("inspect", "-J", "fresh").json))
        listed = self.dlock("inspect", "-J").json
        self.assertEqual({"keys", "backend", "complete"}, set(listed))
        self.assertEqual(set(view), {*listed["keys"][0], "last_start", "backend", "complete"})
        held.send(signal.SIGTERM).end()
        self.shell(example("dlock-renew.1", "dlock renew --key"),
                   env={"DLOCK_HANDLE": self.acquired("--key", "migrate")})
        held = self.hold_by_job("deploy")
        self.shell(example("dlock-release.1", "dlock release --key deploy --revoke"))
        held.end()
        self.acquired("--key", "deploy")
        self.shell(example("dlock-release.1", "dlock inspect deploy",
                           "dlock release --key deploy --force")
                   .replace("1766534400000000", str(self.holder("deploy")["token"])))
        self.is_free("deploy")

    def test_stuck(self):
        """What is printed is what the manual shows."""
        held = self.hold_by_job("nightly", "--reason", "full backup")
        second = self.run_dlock("--key", "nightly", "--", "true")
        self.until_waiting(1, "nightly")
        self.assertEqual(shown("dlock inspect nightly$", "force"),
                         words(self.tell("inspect", "nightly")))
        self.dlock("release", "--key", "nightly", "--revoke", "--wait", "1m")
        held.end()
        second.end(0)

        self.acquired("--key", "nightly", "--ttl", "1h")
        now = words(self.tell("inspect", "nightly"))
        lines = lines_of("dlock.1")
        at = next(n for n, line in enumerate(lines) if "token 1795364499220625, id" in line)
        self.assertEqual([], [line for line in words("\n".join(lines[at:at + 4]))
                              if line not in now])
        token = str(self.holder("nightly")["token"])
        self.assertEqual(shown("dlock release --key nightly --force", "dlock:"),
                         words(self.tell("release", "--key", "nightly", "--force", "--token",
                                         token)))
        self.dlock("run", "--key", "daily", "--once-per", "day", "--", "true")
        self.assertEqual(shown("dlock inspect daily", "where"),
                         words(self.tell("inspect", "daily")))
        if self.built_with("redis"):
            self.assertEqual(shown("dlock inspect nightly -b", "dlock:"),
                             words(self.tell("inspect", "nightly", "-b", "redis://127.0.0.1:1",
                                             wanted=(69,))))
        page = read(ROOT + "/man/dlock.1")
        part = re.search(r"(?ms)^\.Sh THE LOCK IS STUCK(.*?)^\.Sh EXAMPLES", page)[1]
        for block in re.findall(r"(?ms)^\.Bd -literal[^\n]*\n(.*?)^\.Ed", part):
            covered.update("dlock.1: " + line for line in block.split("\n"))

    def test_once_a_night(self):
        """On three hosts, and again only if it failed."""
        line = example("dlock-run.1", "0,20,40 3 * * *").removeprefix("0,20,40 3 * * *  ")
        line = line.replace("/usr/local/bin/", "")
        self.stand_in("bin/nightly", "echo nightly >>calls\n[ -e good ]")
        self.shell(line, wanted=1)
        write("good")
        self.shell(line)
        self.shell(line)
        self.called("nightly", "nightly")

    def test_migration(self):
        """And another backend without a gap."""
        text = example("dlock-run.1", "dlock run -w 10m")
        self.run_busy("migrate-orders", text)
        self.shell(text)
        self.called("migrate up")
        text = example("dlock-run.1", "dlock run -b redis://old")
        text = text.replace("redis://", f"file:{self.dir}/").replace("/usr/local/bin/", "")
        for place in "old", "new":
            os.mkdir(place, 0o700)
        os.unlink("calls")
        self.assertEqual("", self.shell(text).err)
        self.called("report ")
        for place in "old", "new":
            self.listed("report\n", "-b", f"file:{self.dir}/{place}", "-o", "KEY")

    def test_cluster(self):
        """And what watches it."""
        text = not_run("dlock-run.1", "no Kubernetes here: its command is asked to explain itself",
                       "apiVersion: batch/v1", "            secret:")
        command = re.search(r"(?m)^ *command: \[(.*)\]$", text)[1]
        if self.built_with("redis"):
            self.explained(re.sub('[,"]', "", command))
        text = not_run("dlock-run.1", "no Docker here", "services:", "  locks: {file")
        command = re.search(r"(?m)^ *command: (.*)$", text)[1]
        if self.built_with("redis"):
            write("secret", "canary\n")
            self.explained(command.replace("/run/secrets/locks", "secret"))
        text = not_run("dlock-run.1", "no Prometheus here: the figure that it asks for is written",
                       "- alert: NightlyTooOld", "  annotations:")
        self.dlock("run", "--metrics-file", "figures", "--key", "nightly", "--", "true")
        figure = re.search('dlock_last[a-z_]*{key="nightly"', text)[0]
        self.assertIn("\n" + figure, "\n" + read("figures"))
        if shutil.which("promtool"):
            rules = text.replace("\n", "\n  ")
            write("rules.yml", f"groups:\n- name: dlock\n  rules:\n  {rules}\n")
            write("test.yml", ALERT_TEST.replace("FIGURE", figure).replace(
                "SUMMARY", re.search('summary: "(.*)"', text)[1]))
            self.program("promtool", "test", "rules", "test.yml")

    def test_systemd(self):
        """What is started is a command line that dlock takes."""
        not_run("dlock-run.1", "no systemd runs here: its ExecStart is asked to explain itself",
                "[Unit]", "ExecStart=/usr/bin/dlock run --key leader -- /usr/bin/worker --notify")
        starts = re.findall("(?m)^ExecStart=.*(dlock run.*)", "\n".join(lines_of("dlock-run.1")))
        self.assertEqual(2, len(starts))
        write("secret", "canary\n")
        for line in starts:
            if self.built_with("redis") or "redis:" not in line:
                self.explained(line.replace("%d/locks", "secret"))

    def test_migrating(self):
        """What is written instead of another tool's line is a command line that dlock takes."""
        lines = lines_of("dlock-migrating.7")
        covered.update(f"dlock-migrating.7: {line}" for line in lines)
        new = [line.rpartition("/usr/bin/")[2] for line in lines if "dlock run " in line]
        self.assertGreaterEqual(len(new), 10)
        for line in new:
            scheme = re.search("-b '?([a-z]+):", line)
            if self.built_with({"postgres": "postgresql"}.get(scheme[1], scheme[1])
                               if scheme else "file"):
                self.explained(line)
        # And what flock(1) holds, the new line does not get.
        line = new[0].replace("/run/lock", self.dir)
        self.assertIn("?recipe=flock", line)
        self.program("flock", "report.lock", "bash", "-c", line, wanted=9)
        self.shell(line)
        self.called("report ")

    def test_servers(self):
        """The command lines are taken; the servers are those of other tests."""
        line = not_run("dlock-redis.7", "no server db1; a grace of ten minutes",
                       "dlock run -b 'redis://db1?restart_grace=10m'")
        if self.built_with("redis"):
            self.explained(line)
        not_run("dlock-bench.1", "no server r1; program/bench_test.py has these options",
                "dlock bench -b", "  jq -e '.pass")

    def test_rights_and_tables(self):
        """Those of the sources, which other tests use."""
        def rights(text):
            return sorted(re.sub("(?m)^ACL SETUSER dlock ", "", text).split())

        for page, backend, first, last in (("dlock-redis.7", "redis", r"dlock:\*", "+zcount"),
                                           ("dlock-redlock.7", "redlock", r"jobs:\*", "+del")):
            text = not_run(page, "a test logs in with the rights of backends/*/README.md",
                           "ACL SETUSER", "ACL SETUSER dlock " + last)
            source = re.search(f"(?m)^ACL SETUSER dlock .*{first}.*",
                               read(f"{ROOT}/backends/{backend}/README.md"))[0]
            self.assertEqual(rights(source), rights(text))
        for backend in "mysql", "postgresql":
            page = f"dlock-{backend}.7"
            tables = list(itertools.dropwhile(lambda line: not line.startswith("CREATE TABLE"),
                                              lines_of(page)))
            covered.update(f"{page}: {line}" for line in tables)
            sources = {line.removesuffix(";") for path in glob.glob(
                f"{ROOT}/backends/{backend}/**/*.sql", recursive=True)
                for line in read(path).split("\n")}
            self.assertTrue(tables)
            self.assertEqual([], [line for line in tables
                                  if line.removesuffix(";") not in sources])
        not_run("dlock-postgresql.7", "names accounts of a server", "CREATE ROLE dlock",
                "CREATE DATABASE")
        not_run("dlock-postgresql.7", "likewise", "GRANT pg_read", "REVOKE pg_read")
        not_run("dlock-postgresql.7", "likewise", "GRANT SELECT", "ALTER DEFAULT")
        not_run("dlock-etcd.7", "names a role of a cluster", "etcdctl role add",
                "etcdctl user grant-role")
        not_run("dlock-backends.7", "every_store/formats_test.py shows it", "... has layout")

    def test_readme(self):
        """The first line; each URL of the table is one that dlock takes."""
        self.stand_in("bin/backup", 'echo "backup $*" >>calls')
        self.shell(example("README.md", "dlock run --key nightly -- "))
        self.called("backup ")
        self.assertIn("nightly", self.shell(example("README.md", "dlock inspect")).out)
        done = self.shell(example("README.md", "dlock --help", "dlock help backends"))
        self.assertIn("usage: dlock run ", done.out)
        urls = re.findall(r"(?m)^\| `([a-z]*:[^`]*)` ", read(ROOT + "/README.md"))
        self.assertEqual(7, len(urls))
        for url in urls:
            if self.built_with(url.partition(":")[0]):
                self.dlock("run", "--explain", "-b", url, "--key", "k", "--", "true")

    def test_history(self):
        """A history of one's own is judged."""
        not_run("dlock-faults.7", "is a build", "cmake -S . -B build-test", "cmake --build")
        text = example("dlock-faults.7", "dlock run --trace=/tmp/history",
                       "build-test/tests/support/history/").replace("/tmp/", "")
        os.symlink(os.path.dirname(DLOCK) + "/..", "build-test")
        if not os.access("build-test/tests/support/history/history_check", os.X_OK):
            self.skipTest("history_check is not built")
        self.assertIn("1 grants, 1 jobs, 0 faults", self.shell(text).out)
        # What the page says of a lock that is taken away: the job that lost it may still run
        # beside the next one.
        run = self.run_dlock("--trace=history", "--kill-after", "20s", "--key", "taken", "--", "sh",
                             "-c", 'trap "" TERM; echo up; read go', stdin=subprocess.PIPE)
        run.prints("up")
        self.dlock("release", "--trace=history", "--force", "--yes", "--key", "taken")
        self.dlock("run", "--trace=history", "--key", "taken", "--", "true")
        run.go().end()
        self.assertLine(r"\| I2 .* 1 \|", self.shell(text, wanted=1))

    def test_build(self):
        """How to build, test and install."""
        for page, first, reason in (
                ("README.md", "scripts/dlock", "takes minutes; scripts_test.py has a short cmake"),
                ("README.md", "scripts/test", "is what runs this test"),
                ("README.md", "apt install", "needs root, and a package of scripts/package"),
                ("README.md", "apt remove", "likewise"),
                ("README.md", "tar -C /usr/local", "likewise"),
                ("README.md", "scripts/package", "packaging_test.py, with a build of no time"),
                ("README.md", "cmake --install build", "likewise"),
                ("README.md", "cmake --build build --target uninstall", "likewise"),
                ("README.md", "scripts/prove --help", "scripts_test.py runs it"),
                ("dlock-faults.7", "scripts/prove --comparison",
                 "takes long; measure.comparison runs two of its tools"),
                ("dlock-faults.7", "scripts/prove --faults",
                 "takes 20 minutes; faults.* run a few of its cells"),
                ("README.md", "man dlock", "scripts/check and manual_test.py read the pages")):
            not_run(page, reason, first, "man -l" if first == "man dlock" else "")

    def test_ttl(self):
        """None has one that the default grace of Redis refuses, without a grace of its own."""
        lines = [f"{page}: {line}" for page in (
            "README.md", "dlock.1", "dlock-acquire.1", "dlock-redis.7", "dlock-redlock.7",
            "dlock-release.1", "dlock-renew.1", "dlock-run.1") for line in lines_of(page)]
        self.assertEqual([], [line for line in lines if "--ttl" in line and "restart_grace=" not in
                              line and not re.search("--ttl[= ]([12]?[0-9]|30)s", line)])
        for verb in "run", "acquire", "renew", "release":  # nor the help
            self.assertNoLine(" *(dlock|grant).*--ttl", self.dlock(verb, "--help"))


class Missing(harness.Case):
    """What the cases of Examples, which come before, do not name."""

    def test_missing(self):
        if not covered:
            self.skipTest("the examples were not run")
        # Other displays are unknown to lines_of.
        pages = sorted(glob.glob(ROOT + "/man/*.[1-8]"))
        for path in pages:
            self.assertNoLine(r"\.(D1|Bd -(unfilled|filled|ragged|centered))", read(path))
        lines = {f"{page}: {line}" for page in ("README.md", *map(os.path.basename, pages))
                 for line in lines_of(page)}
        self.assertEqual([], sorted(lines - covered))


harness.main()
