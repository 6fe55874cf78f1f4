// SPDX-License-Identifier: Apache-2.0
// The texts that dlock writes: the data of its nodes, and a session's ticket in a handle.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include "core/identity.hpp"
#include "core/lease.hpp"
#include "store/backend.hpp"

namespace dlock::zookeeper {

// The data of a node, for people. The data of a permit's node also contain the permit's slot. The
// form:
//   dlock1 ID TIMEOUT_US LIMIT SLOT IDENTITY[&run=END.LASTED_US]
// ID is the beginning of the owner id. TIMEOUT is the timeout of the session (ttl plus lock-delay).
// LIMIT and SLOT are `-` if there is none. END and LASTED describe the job that has ended while
// --min-hold still keeps its lock.
struct NodeRecord {
  struct Run {
    RunEnd end;
    Duration lasted{};
  };
  std::string id;
  Duration timeout{};
  std::optional<unsigned> limit, slot;  // slot: of the permit that the node holds
  Identity who;
  std::optional<Run> run{};

  static NodeRecord of(const Request&);
  bool is_of(const Owner& owner) const { return id == owner.hex().substr(0, 8); }
  std::string text() const;
  static std::optional<NodeRecord> parse(std::string_view);  // nullopt: another program's data
};

// The note of --once-per: `dlock1 AT UNTIL`, or nothing.
std::string start_text(const std::optional<RunStart>&);
// Errc::protocol: this is not such a note.
Result<std::optional<RunStart>> parse_start(std::string_view text, const std::string& where);

// Curator writes this text into a holder's node to ask the holder to release. If a later holder's
// node can have the same name (`names_recur`, recipe ephemeral), dlock adds the token of the holder
// that is asked, so that a late request asks no other holder. dlock's record stays at the end,
// where parse() finds it.
inline constexpr std::string_view revoke_mark = "__REVOKE__";
std::string revoke_text(FencingToken, bool names_recur, std::string_view data);
bool is_revoked(std::string_view data, FencingToken, bool names_recur);

// What another process needs to resume a session. As text: the id in 16 hex digits, the password in
// 32, and then `-TIMEOUT-LOCK_DELAY` in ms.
struct Ticket {
  std::int64_t id = 0;
  std::string password;  // 16 bytes
  // `timeout`: the timeout with which the session was created. It includes `lock_delay`, which is
  // no part of the lease. A new leader tracks the session by this timeout, so every resume requests
  // the same timeout.
  Duration timeout{}, lock_delay{};

  std::string text() const;
  static std::optional<Ticket> parse(std::string_view);
};

}  // namespace dlock::zookeeper
