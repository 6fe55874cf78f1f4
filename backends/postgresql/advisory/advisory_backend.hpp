// SPDX-License-Identifier: Apache-2.0
// Recipe advisory: session-level advisory locks, as every caller of pg_advisory_lock() has them.
// Each grant has its own session, whose socket the guard holds a duplicate of: as long as the job
// lives the server is told no goodbye. The server ends the session when it got no message for the
// ttl (idle_session_timeout), so the ttl is the lease; each renewal is a heartbeat, which writes
// nothing. The end of the session makes the socket readable, and that is the alarm.
//
// The record of the newest grant decides nothing but the token. It is in force as long as a session
// has the lock and the seal of the record's owner (advisory_lock.cpp), so a release writes nothing.
#pragma once
#include <map>
#include <memory>
#include "core/backend.hpp"
#include "postgresql/advisory/advisory_lock.hpp"
#include "postgresql/client/client.hpp"
#include "util/fd.hpp"

namespace dlock::postgresql {

class AdvisoryBackend final : public Backend {
 public:
  AdvisoryBackend(const Traits&, Options);
  ~AdvisoryBackend() override;
  AdvisoryBackend(const AdvisoryBackend&) = delete;
  AdvisoryBackend& operator=(const AdvisoryBackend&) = delete;

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_.options().where; }
  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration, std::optional<RunEnd>) override {
    return fail(refuse("the lock ends with its connection, so it cannot be detached"));
  }
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_.exchanges(), wakeups_}; }

 private:
  friend class AdvisoryWaiter;
  struct Lock {
    std::string value, record;  // $1; the name of the record: "KIND:PREFIX KEY", without the blank
  };
  struct Seen {
    bool exists = false;
    Micros now = 0, granted = 0, left = 0;
    std::string pids;  // of the sessions that have the lock, dlock's or not: "PID,PID"
    FencingToken fence = 0;
    std::string owner;
    Identity who;
    bool ours = false;  // the record is in force
    std::optional<HolderView> holder() const;
    std::string why() const { return pids.empty() || ours ? "" : "held by another program"; }
  };
  struct Held {
    std::unique_ptr<Connection> connection;
    Fd alarm;  // epoll(7); it stays when the connection is gone, since others may poll its number
    FencingToken token = 0;
  };

  Error refuse(std::string_view what) const;
  Call silence(Duration ttl) const;
  Result<Lock> lock_of(const Key&) const;
  std::string record_of(std::string_view key) const;
  Held* mine(const Key&, const Owner&);
  void lose(Held&);
  Granted granted(Lease, Held&, Deadline sent, Duration ttl) const;
  Result<Seen> look(Connection&, const Lock&, Deadline until);
  Result<Seen> look(const Key&);
  Result<Rows> ask(std::string_view what, const Call&);  // over any session; no table: no rows

  Client client_;
  const Traits& traits_;
  const AdvisoryStatements sql_;
  std::map<std::pair<std::string, Owner>, Held> held_;
  std::uint64_t wakeups_ = 0;
};

}  // namespace dlock::postgresql
