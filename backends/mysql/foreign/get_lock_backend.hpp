// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mysql/foreign/held_backend.hpp"

namespace dlock::mysql {

// GET_LOCK(name, ...), called as other programs call it. The record names the session that was
// granted the lock last. The record is in force while that session has both the lock and the named
// lock life_name(), so a release writes nothing. The number of a session alone proves nothing: a
// restarted server numbers its sessions from the beginning. If the server forbids tables in memory,
// the record outlives the restart. The next token is the greater of two numbers: the token in the
// record plus 1, and the server's clock.
class GetLockBackend final : public HeldBackend {
 public:
  GetLockBackend(const Traits&, Options);
  std::string replaced_name(const Key&) const override;

 protected:
  std::string_view locks() const override { return "named locks"; }
  std::string_view behind_proxy() const override {
    return "a named lock ends up with the next user of the connection; connect to the server "
           "itself, or use recipe lease";
  }
  std::string in_force(const std::string&) const override;
  std::string held(const std::string&) const override;
  Result<std::optional<FencingToken>> try_now(Connection&, const std::string&, const Request&,
                                              Deadline) override;
  Result<Duration> send_wait(Connection&, const Request&) override;
  bool was_granted(const SqlRows&) const override;
  Result<std::optional<FencingToken>> record_grant(Connection&, const std::string&, const Request&,
                                                   Deadline) override;
  Result<bool> heartbeat(Connection&, const Lease&, Duration, Deadline) override;
  Result<bool> release_over(Connection&, const Lease&, Deadline) override;
  Result<void> undo(Connection&, const std::string&, Deadline) override;
  Result<std::uint64_t> session_of(Connection&, const std::string&, Deadline) override;

 private:
  const Template take_, free_;
};

}  // namespace dlock::mysql
