// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/watch.hpp"
#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>
#include <csignal>
#include "cli/say.hpp"
#include "core/text.hpp"
#include "util/fd.hpp"
#include "util/terminal.hpp"
#include "util/wait.hpp"

namespace dlock::cli {

using namespace std::chrono_literals;

namespace {

constexpr std::string_view enter = "\033[?1049h\033[?25l", leave = "\033[?25h\033[?1049l";

// Reads keys without line buffering and echo. The destructor restores the terminal.
class Screen {
 public:
  explicit Screen(bool wanted)
      : wanted_(wanted),
        keys_(wanted && ::isatty(STDIN_FILENO) && ::tcgetattr(STDIN_FILENO, &modes_) == 0) {
    resume();
  }
  ~Screen() { suspend(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void resume() {
    if (wanted_) (void)print(enter);
    if (!keys_) return;
    termios raw = modes_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  void suspend() {
    if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &modes_);
    if (wanted_) (void)print(leave);
  }
  void stop() {
    suspend();
    ::raise(SIGSTOP);
    resume();
  }
  // Returns whether we may read keys.
  bool keys() const noexcept { return keys_ && !in_the_background(STDIN_FILENO); }

  // Returns as much of the text as fits, because wrapped lines would scroll the first lines away.
  static std::string fitted(std::string_view text) {
    const TerminalSize size = terminal_size(STDOUT_FILENO);
    std::string out = "\033[H";
    for (unsigned row = 0; row + 1 < size.rows && !text.empty(); ++row) {
      const std::string_view line = next_part(text, '\n');
      std::size_t bytes = 0;
      for (unsigned column = 0; bytes < line.size() && column < size.columns; ++column) {
        ++bytes;
        while (bytes < line.size() && (static_cast<unsigned char>(line[bytes]) & 0xC0) == 0x80)
          ++bytes;
      }
      out.append(line.substr(0, bytes)).append("\033[K\n");
    }
    return out + "\033[J";
  }

 private:
  const bool wanted_;
  termios modes_{};
  const bool keys_;
};

}  // namespace

Result<void> watch(Duration every, bool redraw, const std::function<Frame()>& frame) {
  sigset_t mine, before;
  sigemptyset(&mine);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) sigaddset(&mine, s);
  // so the terminal is restored before a signal takes effect
  ::pthread_sigmask(SIG_BLOCK, &mine, &before);
  const Fd signals(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
  std::string last;
  int ending = 0;
  Result<void> done;
  {
    Screen screen(redraw);
    for (bool over = false; !over;) {
      const Frame now = frame();
      if (redraw) done = print(Screen::fitted(now.text));
      else if (now.compare != last) done = print(now.text);
      if (!done) break;
      last = now.compare;
      const Deadline next = later(Clock::now(), every);
      for (bool again = false; !again && !over;) {
        // POLLERR on stdout shows, without a write, that the reader of a pipe has left.
        pollfd p[] = {{signals.get(), POLLIN, 0},
                      {screen.keys() ? STDIN_FILENO : -1, POLLIN, 0},
                      {redraw ? -1 : STDOUT_FILENO, 0, 0}};
        again = wait_until(p, next) == 0;
        over = (p[2].revents & POLLERR) != 0;
        signalfd_siginfo s;
        while (::read(signals.get(), &s, sizeof s) > 0) {
          if (s.ssi_signo == SIGTSTP) screen.stop();
          if (s.ssi_signo == SIGTSTP || s.ssi_signo == SIGWINCH) {
            again = true;
          } else {
            ending = static_cast<int>(s.ssi_signo);
            over = true;
          }
        }
        char key = 0;
        if ((p[1].revents & POLLIN) && ::read(STDIN_FILENO, &key, 1) == 1)
          over |= key == 'q' || key == 'Q' || key == '\033';
        else over |= (p[1].revents & (POLLHUP | POLLERR)) != 0;
      }
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (ending != 0) ::raise(ending);
  return done;
}

}  // namespace dlock::cli
