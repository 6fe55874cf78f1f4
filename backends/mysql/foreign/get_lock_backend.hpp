// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mysql/foreign/held_backend.hpp"

namespace dlock::mysql {

// GET_LOCK(name, ...) as every user of named locks calls it. The record names the session that was
// last granted the lock, and is in force as long as that session has the lock and the one of its
// life, so a release writes nothing. The number of a session alone proves nothing: a restarted
// server counts from the beginning, and where tables in memory are forbidden the record outlives
// the restart. Tokens continue with the record or the server's clock, whichever is greater.
class GetLockBackend final : public HeldBackend {
 public:
  GetLockBackend(const Traits&, Options);

 protected:
  Result<void> fit(const Facts&) const override;
  std::string in_force(const std::string&) const override;
  std::string held(const std::string&) const override;
  Result<std::optional<FencingToken>> try_now(Connection&, const std::string&, const Request&,
                                              Deadline) override;
  std::string wait(const std::string&, double seconds) const override;
  bool got(const SqlRows&) const override;
  Result<FencingToken> note(Connection&, const std::string&, const Request&, Deadline) override;
  Result<bool> beat(Connection&, const Lease&, Duration, Deadline) override;
  Result<bool> give_up(Connection&, const Lease&, Deadline) override;
  Result<void> undo(Connection&, const std::string&, Deadline) override;
  Result<std::uint64_t> session_of(Connection&, const std::string&, Deadline) override;

 private:
  const Template take_, free_;
};

// The name of a lock as an SQL expression: the key itself, or its SHA-1 when it exceeds MySQL's 64
// characters.
std::string lock_name(const std::string& name);

}  // namespace dlock::mysql
