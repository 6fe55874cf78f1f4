// SPDX-License-Identifier: Apache-2.0
// How `renew`, `release` and `check` reach the process behind `acquire --keep` if the lock ends
// with a descriptor, so that no other process can talk to the store for it. An abstract unix
// socket: no file to leave behind. Both sides ask the kernel for the peer's user, and accept only
// the same user or root; the owner id in the handle is the proof.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "core/owner.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// unknown: it does not know the state of the lock.
enum class KeeperAnswer { done, not_held, unknown };

// The address of a keeper, detailed enough to tell a dead one from an unreachable one: an abstract
// socket is visible in one network namespace only, a pid in one pid namespace, and both in one boot
// of one machine.
struct KeeperAddress {
  std::string name;           // of the socket
  std::string boot{};         // of this boot, 16 hex digits; empty: not known
  std::uint64_t network = 0;  // namespaces, by inode; 0: not known
  std::uint64_t processes = 0;
  pid_t pid = 0;

  static KeeperAddress of_this_process(std::string name);
  static KeeperAddress parse(std::string_view text);  // missing or malformed parts are unknown
  std::string text() const;
};

// Errc::unavailable: no socket is available.
Result<Fd> listen_as_keeper(std::string_view name);

// `what`: "renew", "release" or "check". Never `unknown`. not_held: the keeper says so, or is known
// to be dead, and the lock ended with it. Errc::unavailable: it cannot be reached from here, and
// may live. Errc::timed_out: no answer within 5 s, or the keeper does not know the lock's state.
// Errc::denied: another user answers.
Result<KeeperAnswer> query_keeper(const KeeperAddress&, std::string_view what, const Owner&);

// One received request. An empty `what`: none that gets an answer.
struct KeeperRequest {
  std::string what;
  Fd reply{};
};
KeeperRequest next_request(int listener, const Owner&);
void answer(const KeeperRequest&, KeeperAnswer) noexcept;

}  // namespace dlock::run
