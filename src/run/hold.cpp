// SPDX-License-Identifier: Apache-2.0
#include "run/hold.hpp"
#include <unistd.h>
#include <cerrno>
#include <utility>
#include "core/exit_status.hpp"

namespace dlock::run {
namespace {

bool stdin_ended() {
  char sink[4096];
  const ssize_t n = ::read(STDIN_FILENO, sink, sizeof sink);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

std::array<pollfd, 4> Hold::descriptors(const std::optional<Owner>& owner) const {
  return {{{owner && until_stdin_ends ? STDIN_FILENO : -1, POLLIN, 0},
           {watch, POLLIN, 0},
           {owner ? -1 : asker, POLLIN, 0},
           {owner ? listener : -1, POLLIN, 0}}};
}

std::optional<Outcome> Hold::asked(const std::optional<Owner>& owner) {
  auto p = descriptors(owner);
  ::poll(p.data(), p.size(), 0);
  if (p[0].revents != 0 && stdin_ended()) return Outcome{};
  if (p[1].revents != 0) return Outcome{false, status_ok, Outcome::How::caller_gone};
  if (p[2].revents != 0) return Outcome{false, status_ok, Outcome::How::error};
  if (p[3].revents == 0) return std::nullopt;
  KeeperQuestion q = next_question(listener, *owner);
  if (q.what == "release") {
    release_asked = std::move(q);  // answered once the store has answered
    return Outcome{};
  }
  if (!q.what.empty()) answer(q, KeeperAnswer::done);
  return std::nullopt;
}

void Hold::released(const event::ReleaseDone& done) const {
  if (!release_asked) return;
  answer(*release_asked, done.unknown     ? KeeperAnswer::unknown
                         : done.confirmed ? KeeperAnswer::done
                                          : KeeperAnswer::not_held);
}

}  // namespace dlock::run
