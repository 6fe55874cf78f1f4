// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock belongs to a session: get-lock and for-update. Each grant has its own
// connection, whose socket the guard holds a duplicate of: as long as the job lives no COM_QUIT is
// sent. The server ends the session when it got no message for the ttl (wait_timeout), so the ttl
// is the lease; each renewal is a heartbeat. The end of the session makes the socket readable, and
// that is the alarm.
#pragma once
#include <map>
#include <memory>
#include "mysql/foreign/named_backend.hpp"
#include "util/fd.hpp"

namespace dlock::mysql {

class HeldBackend : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  ~HeldBackend() override;

  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration, std::optional<RunEnd>) override {
    return fail(refuse("the lock ends with its connection, so it cannot be detached"));
  }
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;

 protected:
  friend class HeldWaiter;

  struct HeldSession {
    std::unique_ptr<Connection> connection;
    Fd alarm;  // of a connection that is gone: others may still poll its number
    FencingToken token = 0;
  };

  virtual std::size_t longest_name() const { return 255; }
  // Whether the server can keep such locks at all. Errc::usage.
  virtual Result<void> fit(const Facts&) const { return {}; }
  // Before the first request over this session.
  virtual Result<void> prepare(Connection&, const std::string&, Deadline) { return {}; }
  // One try without waiting. The token, if granted.
  virtual Result<std::optional<FencingToken>> try_now(Connection&, const std::string& name,
                                                      const Request&, Deadline until) = 0;
  virtual Result<void> before_wait(Connection&, const std::string& name, Deadline) = 0;
  // A statement that waits in the server for at most `seconds`, and the meaning of its answer.
  virtual std::string wait(const std::string& name, double seconds) const = 0;
  virtual bool got(const Answer&) const = 0;
  // Writes the record of a lock that the session has. Over `c` itself, or another connection.
  virtual Result<FencingToken> note(Connection& c, const std::string& name, const Request&,
                                    Deadline until) = 0;
  // Heartbeat: over the session itself. False: the lock is gone, or was released by force.
  virtual Result<bool> beat(Connection&, const std::string& name, const Owner&, Duration ttl,
                            Deadline until) = 0;
  // Releases the lock; the session stays. False: the record was not ours any more.
  virtual Result<bool> give_up(Connection&, const std::string& name, const Owner&,
                               Deadline until) = 0;
  // Releases what an interrupted wait may have been granted.
  virtual Result<void> undo(Connection&, const std::string& name, Deadline until) = 0;
  // The session that has the lock, if it can be determined for foreign holders.
  virtual Result<std::uint64_t> session_of(Connection&, const std::string&, Deadline) {
    return std::uint64_t{0};
  }

  HeldSession* mine(const Key&, const Owner&);

 private:
  void lose(const Key&, const Owner&);
  std::map<std::pair<std::string, Owner>, HeldSession> held_;
};

}  // namespace dlock::mysql
