// SPDX-License-Identifier: Apache-2.0
// The lock of `acquire --keep` may last only while the keeper process has a descriptor open. Then
// no other process can act on the lock in the store. So `renew`, `release` and `check` ask the
// keeper through an abstract unix socket, which leaves no file behind. Both sides ask the kernel
// for the peer's user, and accept only the same user or root. The owner id in the handle proves the
// right to act on the lock.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "core/owner.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The keeper's answer. unknown: the keeper does not know the state of the lock.
enum class KeeperAnswer { done, not_held, unknown };

// The address of a keeper, detailed enough to tell a dead keeper from an unreachable one. An
// abstract socket is visible in one network namespace only, and a pid in one PID namespace only.
// Both exist only during one boot of one machine.
struct KeeperAddress {
  std::string name;             // of the socket
  std::string boot{};           // the id of the boot, 16 hex digits; empty: not known
  std::uint64_t network = 0;    // the inode of its network namespace; 0: not known
  std::uint64_t processes = 0;  // the inode of its PID namespace; 0: not known
  pid_t pid = 0;

  static KeeperAddress of_this_process(std::string name);
  static KeeperAddress parse(std::string_view text);  // missing or malformed parts count as unknown
  std::string text() const;
};

// Opens the socket, in the keeper. Errc::unavailable: the socket cannot be opened.
Result<Fd> listen_as_keeper(std::string_view name);

// Asks a keeper; `what` is "renew", "release" or "check". Blocks for 5 s at most. not_held: the
// keeper says so, or it is dead, so that the lock has ended, too. The result is never `unknown`.
// Errc::unavailable: the keeper cannot be reached from here, but may live. Errc::timed_out: no
// reply came in time, or the keeper does not know the state of the lock. Errc::denied: the socket
// belongs to another user.
Result<KeeperAnswer> query_keeper(const KeeperAddress&, std::string_view what, const Owner&);

// One received request. If `what` is empty, there is nothing to answer.
struct KeeperRequest {
  std::string what;
  Fd reply{};
};
// Takes the next connection, in the keeper's main thread. Blocks for half a second at most.
// next_request() itself answers a request that names another owner.
KeeperRequest next_request(int listener, const Owner&);
void answer(const KeeperRequest&, KeeperAnswer) noexcept;

}  // namespace dlock::run
