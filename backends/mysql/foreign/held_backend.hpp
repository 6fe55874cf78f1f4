// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock belongs to a session: get-lock and for-update. The server ends the session
// when it got no message for the ttl (wait_timeout).
#pragma once
#include <memory>
#include "mysql/foreign/named_backend.hpp"
#include "sql/sql_held_backend.hpp"

namespace dlock::mysql {

// The named lock `dl:<owner><begin of the SHA-256 of the key>` of a session shows that it lives. The
// key is part of it: several keys taken together have one owner, and a session each.
std::string life_name(const Owner&, const std::string& name);
// SQL: the session that the record `r` names has that lock.
inline constexpr std::string_view session_lives =
    "IS_USED_LOCK(CONCAT('dl:',r.owner,LEFT(SHA2(r.name,256),16)))=r.conn";

class HeldBackend : public SqlHeldBackend<NamedBackend> {
 public:
  using SqlHeldBackend::SqlHeldBackend;
  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;

 protected:
  friend class HeldWaiter;

  std::string_view how_lost() const final {
    return "the session does not have it any more, or a release was forced (release --force)";
  }
  // Whether the server can keep such locks at all. Errc::usage.
  virtual Result<void> fit(const Facts&) const { return {}; }
  // Before the first request over this session.
  virtual Result<void> prepare(Connection&, const std::string&, Deadline) { return {}; }
  // One try without waiting. The token, if granted.
  virtual Result<std::optional<FencingToken>> try_now(Connection&, const std::string& name,
                                                      const Request&, Deadline until) = 0;
  virtual Result<void> before_wait(Connection&, const std::string&, Deadline) { return {}; }
  // A statement that waits in the server for at most `seconds`, and the meaning of its answer.
  virtual std::string wait(const std::string& name, double seconds) const = 0;
  virtual bool got(const SqlRows&) const = 0;
  // Writes the record of a lock that the session has. Over `c` itself, or another connection.
  virtual Result<FencingToken> note(Connection& c, const std::string& name, const Request&,
                                    Deadline until) = 0;
  // Releases what an interrupted wait may have been granted.
  virtual Result<void> undo(Connection&, const std::string& name, Deadline until) = 0;
  // The session that has the lock, where the server tells which one a foreign holder has.
  virtual Result<std::uint64_t> session_of(Connection&, const std::string&, Deadline) {
    return std::uint64_t{0};
  }
};

}  // namespace dlock::mysql
