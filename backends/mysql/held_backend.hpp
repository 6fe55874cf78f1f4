// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock is the property of a session: get-lock and for-update. Each grant has a connection of its own, whose socket is what the
// guard holds a duplicate of: as long as the job lives nobody says goodbye to the server. The server ends the session when it has not heard of us for
// the ttl (wait_timeout), so the ttl is the lease; each renewal is a heartbeat. The end of the session makes the socket readable, and that is the alarm.
#pragma once
#include <map>
#include <memory>
#include "mysql/named_backend.hpp"
#include "util/fd.hpp"

namespace dlock::mysql {

class HeldBackend : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  ~HeldBackend() override;

  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration) override {
    return fail(refuse("the lock ends with its connection, so it cannot be detached"));
  }
  Result<Released> release(const Lease&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;

 protected:
  friend class HeldWaiter;

  struct Held {
    std::unique_ptr<Connection> connection;
    Fd alarm;  // of a connection that is gone: others may still look at its number
    FencingToken token = 0;
  };

  virtual std::size_t longest_name() const { return 255; }
  // The server can keep such locks at all. Errc::usage.
  virtual Result<void> fit(const Facts&) const { return {}; }
  // Before the first question over this session.
  virtual Result<void> prepare(Connection&, const std::string&, Deadline) { return {}; }
  // One try without waiting. The token, if it was had.
  virtual Result<std::optional<FencingToken>> try_now(Connection&, const std::string& name, const Request&, Deadline until) = 0;
  virtual Result<void> before_wait(Connection&, const std::string& name, Deadline) = 0;
  // A statement that waits in the server for at most `seconds`, and what its answer means.
  virtual std::string wait(const std::string& name, double seconds) const = 0;
  virtual bool got(const Answer&) const = 0;
  // Writes the record of a lock that the session has. Over `c` itself, or beside it.
  virtual Result<FencingToken> note(Connection& c, const std::string& name, const Request&, Deadline until) = 0;
  // Heartbeat: over the session itself. False: it has the lock no more, or somebody took it away.
  virtual Result<bool> beat(Connection&, const std::string& name, const Owner&, Duration ttl, Deadline until) = 0;
  // Gives the lock back; the session stays. False: the record was not ours any more.
  virtual Result<bool> give_up(Connection&, const std::string& name, const Owner&, Deadline until) = 0;
  // Gives up what a wait that was cut off may have brought.
  virtual Result<void> undo(Connection&, const std::string& name, Deadline until) = 0;
  // The session that has the lock, if that can be told of strangers.
  virtual Result<std::uint64_t> session_of(Connection&, const std::string&, Deadline) { return std::uint64_t{0}; }

  Held* mine(const Key&, const Owner&);

 private:
  void lose(const Key&, const Owner&);
  std::map<std::pair<std::string, Owner>, Held> held_;
};

class HeldWaiter final : public Waiter {
 public:
  HeldWaiter(HeldBackend& backend, const Request& request) : backend_(backend), request_(request) {}
  ~HeldWaiter() override { backend_.client_.drop(std::move(connection_)); }
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<void> connect();
  Result<Progress> granted(FencingToken, Deadline sent);
  Progress waiting();
  std::optional<HolderView> holder(std::string& why);
  Result<Progress> failed(Error);

  HeldBackend& backend_;
  const Request request_;
  std::string name_;
  std::unique_ptr<Connection> connection_;
  Deadline answer_by_{};
  Waiting last_;
  bool looked_ = false;
};

}  // namespace dlock::mysql
