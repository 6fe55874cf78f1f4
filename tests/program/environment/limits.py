# SPDX-License-Identifier: Apache-2.0
"""Limits on descriptors, memory and processes, a foreign locale, and --on-lost, with the stores
that need most."""
import os, resource, shutil, subprocess
import parts


class Limits(parts.Case):
    def each(self, question):
        for kind in "redis", "mysql", "zookeeper":
            with self.subTest(kind):
                self.server = parts.fixture(kind)
                url = self.server.fresh(self._testMethodName)
                question(["-b", url], {"zookeeper": "6s"}.get(kind, "3s"))

    def limited(self, limit, values):
        """With each of these limits dlock works or says in a line why not; the key is free
        afterwards."""

        def question(store, ttl):
            for value in values:
                lock = [*store, "--key", f"k{value}"]
                said = self.tell("run", *lock, "--ttl", ttl, "--connect-timeout", "2s", "--", "sh",
                                 "-c", "exit 7",
                                 wanted=[7, 69, 71, 73, 78, 125],
                                 preexec_fn=lambda: resource.setrlimit(limit, (value, value)))
                self.assertRegex(said, r"^(dlock: .*\n)?$")
                self.tell("run", *lock, "-w", "20s", "--", "true")

        self.each(question)

    def test_descriptors(self):
        self.limited(resource.RLIMIT_NOFILE, (4, 8, 12, 16, 24, 64))

    def test_memory(self):
        """From a little more than the program is loaded with, which depends on the build."""

        def starts(size):
            return subprocess.run(
                [parts.DLOCK, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))
            ).returncode == 0

        least = next(size for size in range(8 << 20, 64 << 20, 1 << 20) if starts(size))
        self.limited(resource.RLIMIT_AS, (least + (3 << 20), 32 << 20, 64 << 20, 256 << 20))

    def test_on_lost(self):
        """exec: runs, the job goes on to its own end, and the status is 123 all the same."""

        def question(store, ttl):
            told = f"{self.dir}/told.{self.server.kind}"
            held = self.run_dlock(*store, "--key", "k", "--ttl", ttl, "--on-lost",
                                  f"exec:touch {told}", "--",
                                  "sh", "-c",
                                  f"until [ -e {told} ]; do sleep 0.05; done; "
                                  f"echo after >{told}.end")
            held.event("acquired")
            self.server.freeze()
            try:
                held.end(123)
            finally:
                self.server.thaw()
            self.assertEqual(parts.read(told + ".end"), "after\n")

        self.each(question)

    def test_locale(self):
        """tr_TR, where i has no I, and a key that is not ASCII: the same bytes in every output."""
        locales = self.dir + "/locales"
        os.mkdir(locales)
        env = {"LC_ALL": "tr_TR.UTF-8"}
        if shutil.which("localedef") and subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8",
                                                         locales + "/tr_TR.UTF-8"],
                                                        capture_output=True).returncode == 0:
            env["LOCPATH"] = locales
        self.tell("run", "-b", self.file, "--key", "é,İıi\"", "--ttl", "1.5s", "--", "true",
                  env=env)
        for output in ["--csv"], ["-J"], []:
            plain = self.tell("inspect", "-b", self.file, *output, env={"LC_ALL": "C.UTF-8"})
            self.assertEqual(self.tell("inspect", "-b", self.file, *output,
                                       env=env).split("ago")[0], plain.split("ago")[0])
        said = self.tell("inspect", "-b", self.file, "--csv", env=env)
        self.assertIn('"é,İıi"""', said)


parts.main()
