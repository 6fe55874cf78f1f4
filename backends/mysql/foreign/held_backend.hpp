// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock belongs to a session: get-lock and for-update. The server ends the session
// when it receives no message for the ttl (wait_timeout).
#pragma once
#include <memory>
#include "mysql/foreign/named_backend.hpp"
#include "sql/sql_held_backend.hpp"

namespace dlock::mysql {

// Returns the name of the named lock that shows that a session is alive:
// `dl:<owner><the first 16 digits of the SHA-256 of the key>`. The key is part of the name, because
// keys that are locked together have one owner, but each key has its own session.
std::string life_name(const Owner&, const std::string& name);
// An SQL condition that is true if the session that the record `r` names has the named lock
// life_name().
inline constexpr std::string_view session_lives =
    "IS_USED_LOCK(CONCAT('dl:',r.owner,LEFT(SHA2(r.name,256),16)))=r.conn";

class HeldBackend : public SqlHeldBackend<NamedBackend> {
 public:
  using SqlHeldBackend::SqlHeldBackend;
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;

 protected:
  std::string_view loss_reason() const final {
    return "the session does not have it any more, or a release was forced (release --force)";
  }
  // For refusals. locks() names these locks. behind_proxy() says what a proxy that shares
  // connections does to them.
  virtual std::string_view locks() const = 0;
  virtual std::string_view behind_proxy() const = 0;
  // Called before the first request over a session.
  virtual Result<void> set_up(Connection&, const std::string&, Deadline) { return {}; }
  // Tries once to take the lock, without waiting. Returns the token; nullopt: not granted.
  virtual Result<std::optional<FencingToken>> try_now(Connection&, const std::string& name,
                                                      const Request&, Deadline until) = 0;
  virtual bool was_granted(const SqlRows& waited) const = 0;
  // Writes the record of the lock that the session `c` has. May use another session to write.
  virtual Result<std::optional<FencingToken>> record_grant(Connection& c, const std::string& name,
                                                           const Request&, Deadline until) = 0;
  // Releases the lock that a wait may have been granted before it failed or was interrupted.
  virtual Result<void> undo(Connection&, const std::string& name, Deadline until) = 0;
  // Returns the session of a foreign holder, or 0 if the server does not report it.
  virtual Result<std::uint64_t> session_of(Connection&, const std::string&, Deadline) {
    return std::uint64_t{0};
  }

 private:
  Result<void> prepare(Connection&, const Request&, Deadline until) final;
  Result<std::optional<FencingToken>> take(Connection&, const Request&, const SqlRows* waited,
                                           Deadline until) final;
  bool may_wait_again(Connection&, Request&) final;
  void give_up(std::unique_ptr<Connection>, const Request&) final;
  Result<bool> force_over(Connection&, const std::string&, const LockRow&, Deadline until) final;
};

}  // namespace dlock::mysql
