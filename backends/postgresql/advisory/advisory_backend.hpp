// SPDX-License-Identifier: Apache-2.0
// Recipe advisory: session-level advisory locks, the same that other callers of pg_advisory_lock()
// take. The server ends a session when it receives no message for the ttl (idle_session_timeout). A
// heartbeat writes nothing.
//
// The record of the newest grant decides only the next token. The record is in force as long as one
// session has both the lock and the seal of the record's owner (advisory_lock.cpp), so a release
// writes nothing.
#pragma once
#include <memory>
#include "postgresql/advisory/advisory_lock.hpp"
#include "postgresql/client/client.hpp"
#include "sql/sql_held_backend.hpp"

namespace dlock::postgresql {

class AdvisoryBackend final : public SqlHeldBackend<SqlRecordBackend<Client>> {
 public:
  AdvisoryBackend(const Traits&, Options);

  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override;

 private:
  struct Lock {
    std::string value;   // lock_value(): $1 of the statements
    std::string record;  // the name of the record: "KIND:", prefix and key
  };
  struct Record : LockRecord {
    std::string pids;  // the sessions that have the lock, of any program: "PID,PID"
  };

  Result<bool> heartbeat(Connection&, const Lease&, Duration ttl, Deadline until) override;
  Result<bool> release_over(Connection&, const Lease&, Deadline until) override;
  Result<void> prepare(Connection&, const Request&, Deadline until) override;
  Result<std::optional<FencingToken>> take(Connection&, const Request&, const SqlRows* waited,
                                           Deadline until) override;
  Result<Duration> send_wait(Connection&, const Request&) override;
  void give_up(std::unique_ptr<Connection>, const Request&) override;
  Result<LockRecord> read_record(Connection&, const Key&, Deadline until) override;
  Result<Record> read_record(Connection&, const Lock&, Deadline until);
  Call set_timeout(Duration ttl) const;
  Result<Lock> lock_of(const Key&) const;
  std::string record_of(std::string_view key) const;
  // Runs the statement in any session. A missing table counts as a table without rows.
  Result<SqlRows> query(std::string_view what, const Call&);

  const AdvisoryStatements sql_;
};

}  // namespace dlock::postgresql
