// SPDX-License-Identifier: Apache-2.0
// How `renew`, `release` and `check` reach the process behind `acquire --keep` where the lock ends with a descriptor, so that no other
// process can speak to the store for it. An abstract unix socket: no file to leave behind. Both sides ask the kernel who the other is, and
// obey only the same user or root; the owner id, which the handle holds, is the proof.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "core/owner.hpp"
#include "util/fd.hpp"

namespace dlock::run {

enum class KeeperAnswer { done, not_held };

// Where a keeper is, so that one that is dead can be told from one that cannot be reached: an abstract socket is seen in one network
// namespace only, a process number in one pid namespace, and both in one boot of one machine.
struct KeeperPlace {
  std::string name;           // of the socket
  std::string boot{};         // of this boot, 16 hex digits; empty: not known
  std::uint64_t network = 0;  // namespaces, by inode; 0: not known
  std::uint64_t processes = 0;
  pid_t pid = 0;

  static KeeperPlace of_this_process(std::string name);
  static KeeperPlace parse(std::string_view text);  // what is missing or broken is not known
  std::string text() const;
};

// Errc::unavailable: no socket can be had.
Result<Fd> listen_as_keeper(std::string_view name);

// `what`: "renew", "release" or "check". not_held: the keeper says so, or is dead for certain, and the lock ended with it.
// Errc::unavailable: it cannot be reached from here, and may live. Errc::timed_out: no answer within 5 s, or the keeper does not know
// what became of the lock. Errc::denied: somebody else answers.
Result<KeeperAnswer> ask_keeper(const KeeperPlace&, std::string_view what, const Owner&);

// One question that has arrived. An empty `what`: none that deserves an answer.
struct KeeperQuestion {
  std::string what;
  Fd reply{};
};
KeeperQuestion next_question(int listener, const Owner&);
void answer(const KeeperQuestion&, KeeperAnswer) noexcept;
void answer_unknown(const KeeperQuestion&) noexcept;

}  // namespace dlock::run
