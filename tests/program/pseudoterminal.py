# SPDX-License-Identifier: Apache-2.0
"""Programs on a terminal of their own, for harness.py."""
import fcntl, os, select, termios
import harness


class Terminal(harness.Run):
    """A program that leads the session of a terminal, which echoes nothing. `out` is what this has
    shown."""

    def __init__(self, test, *words, env=None, columns=120, **more):
        self.master, slave = os.openpty()
        test.addCleanup(self.hang_up)
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        termios.tcsetwinsize(slave, (24, columns))
        self.text, self.found = "", 0
        self.mark = f"MARK_OF_TERMINAL={slave}.{harness.Run.number}/"
        super().__init__(test, *words, stdin=slave, stdout=slave, stderr=slave,
                         start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                         env={**(env or {}), **dict([self.mark.split("=")])}, **more)
        self.env = env
        os.close(slave)

    @property
    def out(self):
        while self.master >= 0 and select.select([self.master], [], [], 0)[0]:
            try:
                self.text += os.read(self.master, 4096).decode(errors="replace")
            except OSError:  # no program has it open
                break
        return self.text

    def until(self, what, question):
        """What it writes meanwhile is read, or it would wait for that."""
        return super().until(what, lambda: (self.out, question())[1])

    def shows(self, text):
        """After what was found last."""
        self.until(f"the terminal shows {text!r}", lambda: text in self.out[self.found:])
        self.found = self.text.index(text, self.found) + len(text)
        return self

    def not_shown(self, text):
        """Since what was found last."""
        self.test.assertNotIn(text, self.out[self.found:], str(self))

    def type(self, text):
        os.write(self.master, text.encode())
        return self

    def hang_up(self):
        if self.master >= 0:
            os.close(self.master)
        self.master = -1

    def end(self, *wanted, **more):
        """Its status, as of any Run; nothing of it is left."""
        self.until("its end", lambda: self.ends_within(0))
        status = super().end(*wanted, **more)
        self.nothing_left()
        return status

    def nothing_left(self):
        self.until("no process of it is left", lambda: not list(harness.marked(self.mark)))
