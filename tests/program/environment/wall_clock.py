# SPDX-License-Identifier: Apache-2.0
"""The wall clock steps while locks of `file:` are held. A machine without a clock of its own starts
in 1970 and steps by decades once it has reached a time server: then all that it has written in this
boot looks older than its start."""
import os, struct, unittest
import parts

hour = 3600
decades = 50 * 365 * 24 * hour
shim = os.environ.get("CLOCK_SHIFT")


@unittest.skipUnless(shim, "no clock_shift")
class WallClock(parts.Case):
    def at(self, seconds):
        with open(self.dir + "/shift", "wb") as file:
            file.write(struct.pack("<q", seconds * 10**9).ljust(4096, b"\0"))
        return {"CLOCK_SHIFT_FILE": self.dir + "/shift", "LD_PRELOAD": shim}

    def used(self):  # a key with more than its very first change
        self.tell("run", "-b", self.file, "--key", "k", "--", "true")

    def hold(self, *words):
        self.used()
        held = self.run_dlock("-b", self.file, "--key", "k", *words, "--", *self.judged())
        parts.within("the job runs", self.runs)
        return held

    def tear(self):
        """Neither slot of the state is whole."""
        with open(self.locks + "/k/state", "r+b") as state:
            for at in 0, 1 << 20:
                state.seek(at)
                if state.read(6) == b"dlock1":
                    state.seek(at + 60)
                    state.write(b"torn")

    def nobody_else(self, env):
        said = self.tell("run", "-b", self.file, "--key", "k", "-n", "--", *self.judged("exit 0"),
                         wanted=range(1, 128), env=env)
        self.assertEqual(self.runs(), 1, said)
        self.alone()
        return said

    def test_torn(self):
        """A state that is torn is an error, also where the clock claims that this was before the
        machine started."""
        self.hold()
        self.tear()
        for step in 0, -hour, hour, decades:
            self.assertIn("damaged", self.nobody_else(self.at(step)))

    def test_torn_detached(self):
        """A lease without a process: nothing but the state knows of it."""
        self.used()
        self.tell("acquire", "-b", self.file, "--key", "k", "--ttl", "1h")
        self.tear()
        for step in 0, -hour, hour, decades:
            said = self.tell("run", "-b", self.file, "--key", "k", "-n", "--", "true",
                             wanted=range(1, 128), env=self.at(step))
            self.assertIn("damaged", said)

    def test_held(self):
        """A whole state: the clock changes nothing for whoever holds, by process or by lease."""
        self.tell("acquire", "-b", self.file, "--key", "l", "--ttl", "1h")
        held = self.hold()
        for step in hour, decades, -hour, -decades:
            env = self.at(step)
            self.nobody_else(env)
            self.tell("run", "-b", self.file, "--key", "l", "-n", "--", "true", wanted=[75],
                      env=env)
        self.assertIsNone(held.process.poll())

    def test_tokens(self):
        """They rise, also when the clock is set back between two grants."""
        tokens = [int(self.tell("run", "-b", self.file, "--key", "k", "--", "sh", "-c",
                                "echo $DLOCK_TOKEN", env=self.at(step)))
                  for step in (hour, 0, -hour, -decades, decades, 0)]
        self.assertEqual(tokens, sorted(set(tokens)))


parts.main()
