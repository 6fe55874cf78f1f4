# SPDX-License-Identifier: Apache-2.0
"""dlock in the background of an interactive shell, while others read the terminal, or do not."""
import os, pty, select, signal
import parts


def sleeps(pid):
    """How often the main thread of that process has gone to sleep."""
    for line in parts.read(f"/proc/{pid}/status").splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    raise AssertionError("it has ended")


class Background(parts.Case):
    def setUp(self):
        super().setUp()
        self.shell, self.terminal = pty.fork()
        if self.shell == 0:
            os.chdir(self.dir)
            bash = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
            os.execvpe(bash[0], bash, {**parts.clean, "D": parts.DLOCK})
        self.addCleanup(os.waitpid, self.shell, 0)
        self.addCleanup(os.kill, self.shell, signal.SIGKILL)
        self.addCleanup(os.close, self.terminal)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def owns_terminal(self, pid):
        return os.tcgetpgrp(self.terminal) == os.getpgid(pid)

    def number(self, name):
        return int(parts.within(name, lambda: parts.read(f"{self.dir}/{name}").strip()))

    def shows(self, text):
        """Whether the terminal shows it by now."""
        while select.select([self.terminal], [], [], 0)[0]:
            self.shown += os.read(self.terminal, 4096).decode(errors="replace")
        return text in self.shown

    shown = ""

    def leave_input_unread(self):
        """Until `gate` is opened: the shell waits, and its job does not read what is typed."""
        os.mkfifo(self.dir + "/gate")
        self.type("cat gate\n")
        parts.within("the job has the terminal", lambda: not self.owns_terminal(self.shell))
        self.type("true\n")

    def open_gate(self):
        with open(self.dir + "/gate", "w"):
            pass
        parts.within("the shell has the terminal", lambda: self.owns_terminal(self.shell))

    def test_hold(self):
        self.type(f"$D acquire --hold -b {self.file} --key k >handle & echo $! >pid\n")
        holder = self.number("pid")
        parts.within("it holds", lambda: parts.read(self.dir + "/handle"))
        before = sleeps(holder)
        self.leave_input_unread()
        parts.within("it has looked, and sleeps again", lambda: sleeps(holder) >= before + 4)
        self.tell("inspect", "-b", self.file, "--check", "k", wanted=[75])
        self.open_gate()
        self.type("fg\n")
        parts.within("it is in the foreground", lambda: self.owns_terminal(holder))
        self.type("more\n\x04")
        parts.within("it has ended", lambda: self.owns_terminal(self.shell))
        self.tell("inspect", "-b", self.file, "--check", "k")
        self.type("echo $? >status\n")
        self.assertEqual(self.number("status"), 0)

    def test_hold_on_a_terminal_that_hangs_up(self):
        self.type(f"$D acquire --hold -b {self.file} --key k >handle & echo $! >pid; disown\n")
        holder = self.number("pid")
        parts.within("it holds", lambda: parts.read(self.dir + "/handle"))
        os.kill(self.shell, signal.SIGKILL)
        os.dup2(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), self.terminal)
        parts.within("it has ended", lambda: not parts.alive(holder))
        self.tell("inspect", "-b", self.file, "--check", "k")

    def test_watch(self):
        """No job of the shell, so that nothing stops it: a read fails."""
        self.type(f"(exec $D inspect --watch=100ms -b {self.file} k </dev/tty & echo $! >pid)\n")
        watch = self.number("pid")
        self.addCleanup(os.kill, watch, signal.SIGKILL)
        parts.within("the key is shown", lambda: self.shows("no record of this key"))
        self.leave_input_unread()
        self.run_dlock("-b", self.file, "--key", "k", "--", "sleep", "600").event("acquired")
        parts.within("the key is shown as held", lambda: self.shows("held, exclusive"))
        self.open_gate()


if __name__ == "__main__":
    parts.main()
