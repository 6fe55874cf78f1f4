# SPDX-License-Identifier: Apache-2.0
"""Which result is printed in which form: --output X, and --json and --csv alike."""
import harness


class Output(harness.Case):
    def test_forms(self):
        """--json, --output json and -J print the same object."""
        mine = ["--key", "k", "--handle", self.acquired("--key", "k", "--ttl", "1h")]
        for words in (["inspect", "k"], ["check", *mine], ["renew", *mine],
                      ["inspect", "--doctor"], ["--version"]):
            with self.subTest(words):
                names = [list(self.dlock(*words, *form, wanted=None).json)
                         for form in (["--json"], ["--output", "json"], ["-J"])]
                self.assertEqual(names[:1] * 3, names)
        self.assertEqual(["backend", "recipe", "weakness", "fit", "findings"],
                         list(self.inspected("--doctor")))

    def test_answers(self):
        """renew, check, release: the answer and the status."""
        mine = ["--key", "k", "--handle", self.acquired("--key", "k")]
        for words, answer, status in (
                (["renew", *mine], '"renewed":true', 0), (["check", *mine], '"valid":true', 0),
                (["check", "v1:file.lease:k:X:7"], '"valid":false', 1),
                (["release", *mine], '"released":true', 0),
                (["release", *mine], '"released":false', 75),
                (["renew", *mine], '"renewed":false', 75)):
            with self.subTest(words[0], answer=answer):
                done = self.dlock(*words, "--json", wanted=status)
                self.assertEqual(f'{{"keys":["k"],{answer},"status":{status}}}\n', done.out)

    def test_unknown(self):
        """An answer that is not known is null, with the reason."""
        answer = self.dlock("check", "-b", "fake:?fail_open=unavailable", "--key", "k", "--token",
                            "3", "--json", dlock=harness.FAKE, wanted=69).json
        self.assertEqual((None, 69), (answer["valid"], answer["status"]))
        self.assertTrue(answer["error"])

    def test_explain_and_version(self):
        plan = self.dlock("run", "--explain", "--key", "a", "--key", "b", "--json", "--",
                          "true").json
        self.assertEqual((["a", "b"], False, 30000),
                         (plan["keys"], plan["leased"], plan["ttl_ms"]))
        self.assertIn("if_dlock_dies", plan)
        version = self.dlock("--version", "--output=json").json
        self.assertEqual(2, version["version"].count("."))
        self.assertEqual(["lease"], [backend["default"] for backend in version["backends"]
                                     if backend["family"] == "file"])
        self.assertEqual(self.dlock("--version").out,
                         self.dlock("--version", "--output", "text").out)

    def test_shared_variable(self):
        """It contradicts nothing, and leaves the other commands as they are."""
        self.dlock("inspect", "--json", "--output", "json")
        for form, words in (("json", ("inspect", "--csv", "--no-heading")),
                            ("env", ("inspect", "--no-heading")),  # a form of acquire
                            ("json", ("run", "--key", "k", "--", "true"))):
            done = self.dlock(*words, env={"DLOCK_OUTPUT": form})
            self.assertEqual("", done.out)


harness.main()
