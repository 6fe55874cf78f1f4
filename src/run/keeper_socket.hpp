// SPDX-License-Identifier: Apache-2.0
// How `renew`, `release` and `check` reach the process behind `acquire --keep` where the lock ends with a descriptor, so that no other
// process can speak to the store for it. An abstract unix socket: no file to leave behind. Both sides ask the kernel who the other is, and
// obey only the same user or root; the owner id, which the handle holds, is the proof.
#pragma once
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "core/owner.hpp"
#include "util/fd.hpp"

namespace dlock::run {

enum class KeeperAnswer { done, not_held };

// Errc::unavailable: no socket can be had.
Result<Fd> listen_as_keeper(std::string_view name);

// `what`: "renew", "release" or "check". Nobody there: not_held, because the lock ended with the keeper. Bounded by 5 s, then
// Errc::timed_out. Errc::denied: somebody else answers.
Result<KeeperAnswer> ask_keeper(std::string_view name, std::string_view what, const Owner&);

// One question that has arrived. An empty `what`: none that deserves an answer.
struct KeeperQuestion {
  std::string what;
  Fd reply{};
};
KeeperQuestion next_question(int listener, const Owner&);
void answer(const KeeperQuestion&, KeeperAnswer) noexcept;

}  // namespace dlock::run
