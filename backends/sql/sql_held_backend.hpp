// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock belongs to a session of a database. Each grant has its own session. The guard
// holds a duplicate of the session's socket, so the session stays open as long as the job lives.
// The server ends the session when it receives no message for the ttl. So the ttl is the lease, and
// each renewal is a heartbeat. When the session ends, its socket becomes readable, which is the
// alarm. Only the thread that owns the Backend calls these functions.
#pragma once
#include <fmt/format.h>
#include <sys/epoll.h>
#include <map>
#include <memory>
#include "common/exchange.hpp"
#include "sql/sql_record_backend.hpp"
#include "util/fd.hpp"

namespace dlock {

// `Base`: a SqlRecordBackend.
template <class Base>
class SqlHeldBackend : public Base {
 public:
  using Base::Base;
  ~SqlHeldBackend() override {
    for (auto& [id, h] : held_) end(h);
  }
  SqlHeldBackend(const SqlHeldBackend&) = delete;
  SqlHeldBackend& operator=(const SqlHeldBackend&) = delete;

  Result<Renewal> renew(const Lease& lease, Duration ttl) override {
    Held* h = held_by(lease.key, lease.owner);
    if (!h) {
      TRY(found, this->read_record(lease.key));
      if (!found.is(lease.owner)) return Lost{"there is no lock with this handle"};
      return fail(this->cannot("only the process that has the connection can renew it"));
    }
    const auto over = [&](std::string_view why) {
      end(*h);
      return Lost{std::string{why}};
    };
    if (!h->connection) return over("its session is over");
    Connection& c = *h->connection;
    const Deadline until = later(Clock::now(), this->client_.options().op_timeout);
    // The reply to an earlier heartbeat may come late. It counts when it comes, because the session
    // is the same.
    if (c.under_way()) {
      const auto late = c.receive({until});
      if (late && !*late) return fail(no_answer("renew", c.where()));
      if (!late && c.broken()) return over(late.error().message);
    }
    const Deadline sent = Clock::now();
    const auto kept = heartbeat(c, lease, ttl, until);
    // If the session itself failed, the server ends the lock that belongs to it. Other errors
    // change nothing.
    if (!kept && c.broken()) return over(kept.error().message);
    if (!kept) return fail(kept.error());
    if (!*kept) return over(loss_reason());
    return Kept{granted({lease.key, lease.owner}, *h, sent, ttl).lease};
  }
  Result<Renewal> detach(const Lease&, Duration, std::optional<RunEnd>) override {
    return fail(this->cannot("the lock ends with its connection, so it cannot be detached"));
  }
  Result<Released> release(const Lease& lease, std::optional<RunEnd>) override {
    Held* h = held_by(lease.key, lease.owner);
    if (!h) {
      TRY(found, this->read_record(lease.key));
      if (!found.is(lease.owner)) return Released::was_not_held;
      return fail(this->cannot(fmt::format(
          "only the process that has the connection can release it ({})", found.who.text())));
    }
    // A grant that has lost its session has no lock. A grant with a session loses the lock now.
    bool was = false;
    if (h->connection) {
      Connection& c = *h->connection;
      const Deadline until = later(Clock::now(), this->client_.options().op_timeout);
      if (c.under_way()) (void)c.receive({until});  // the reply to a heartbeat
      const auto freed = release_over(c, lease, until);
      if (!freed && !c.broken()) return fail(freed.error());
      was = freed && *freed;
      c.holds = false;
      this->client_.give_back(std::move(h->connection));
    }
    held_.erase({lease.key.text(), lease.owner});
    return was ? Released::yes : Released::was_not_held;
  }

 protected:
  using Connection = typename Base::Connection;
  struct Held {
    std::unique_ptr<Connection> connection;
    // an epoll(7) descriptor; it outlives the connection, because others may still poll its number
    Fd alarm;
    FencingToken token = 0;
  };

  // Sends a heartbeat over the session. False: the lock is gone, or was released by force.
  virtual Result<bool> heartbeat(Connection&, const Lease&, Duration ttl, Deadline until) = 0;
  virtual std::string_view loss_reason() const { return "the session does not have it any more"; }
  // Releases the lock, but keeps the session. False: the lock was not ours any more.
  virtual Result<bool> release_over(Connection&, const Lease&, Deadline until) = 0;

  // Prepares a new session for a request. Errc::usage: this server cannot keep such locks.
  virtual Result<void> prepare(Connection&, const Request&, Deadline until) = 0;
  // Takes the lock if it is free, and returns its token. `waited`: the reply to a wait, after which
  // the session may have the lock; null: it did not wait.
  virtual Result<std::optional<FencingToken>> take(Connection&, const Request&,
                                                   const SqlRows* waited, Deadline until) = 0;
  // Sends a statement that waits for the lock in the server. Returns the longest time that the
  // statement takes there.
  virtual Result<Duration> send_wait(Connection&, const Request&) = 0;
  // Returns whether the session can wait again after a wait that failed. If so, the session has no
  // lock, and the request has got another owner.
  virtual bool may_wait_again(Connection&, Request&) { return false; }
  // Ends a wait, and gives up what the session was granted meanwhile.
  virtual void give_up(std::unique_ptr<Connection>, const Request&) = 0;

  // The Waiter must not outlive this Backend.
  std::unique_ptr<Waiter> waiter(const Request& r) {
    return std::make_unique<HeldWaiter>(*this, r);
  }
  Held* held_by(const Key& key, const Owner& owner) {
    const auto found = held_.find({key.text(), owner});
    return found == held_.end() ? nullptr : &found->second;
  }
  // Keeps a grant: the session got the lock by a request that was sent at `sent`.
  Granted keep_grant(const Request& r, std::unique_ptr<Connection> c, FencingToken token,
                     Deadline sent) {
    Held& h = held_[{r.key.text(), r.owner}];
    h = {std::move(c), Fd{::epoll_create1(EPOLL_CLOEXEC)}, token};
    epoll_event end{.events = EPOLLIN | EPOLLRDHUP, .data = {}};
    ::epoll_ctl(h.alarm.get(), EPOLL_CTL_ADD, h.connection->fd(), &end);
    h.connection->holds = true;
    return granted({r.key, r.owner}, h, sent, r.ttl);
  }
  // Renews a lock that we hold, for a repeated request. nullopt: we do not hold the lock any more.
  Result<std::optional<Progress>> repeat_grant(const Request& r) {
    Held* h = held_by(r.key, r.owner);
    if (!h) return std::nullopt;
    const Deadline sent = Clock::now();
    TRY(again, renew({r.key, r.owner}, r.ttl));
    if (std::holds_alternative<Kept>(again)) return granted({r.key, r.owner}, *h, sent, r.ttl);
    held_.erase({r.key.text(), r.owner});
    return std::nullopt;
  }

 private:
  class HeldWaiter final : public Waiter {
   public:
    HeldWaiter(SqlHeldBackend& backend, const Request& request)
        : backend_(backend), request_(request) {}
    ~HeldWaiter() override { backend_.client_.drop(std::move(connection_)); }

    Result<Progress> poll(Duration slice) override {
      last_.sent_at = {};
      TRY(again, backend_.repeat_grant(request_));
      if (again) return std::move(*again);
      auto done = step(later(Clock::now(), slice));
      // The locks that the session has, or was about to get, end with the session.
      if (!done) backend_.client_.drop(std::move(connection_));
      return done;
    }
    Result<void> cancel() override {
      if (connection_) backend_.give_up(std::move(connection_), request_);
      if (!backend_.held_by(request_.key, request_.owner)) return {};
      TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
      return {};
    }

   private:
    Result<Progress> step(Deadline end) {
      const auto& options = backend_.client_.options();
      for (;;) {
        Result<std::optional<SqlAnswers>> answer = std::nullopt;
        if (connection_ && connection_->under_way()) {
          answer = connection_->receive({std::min(end, answer_by_), options.interrupt_fd});
          if (answer && !*answer && Clock::now() < answer_by_) return last_;
          if (answer && !*answer) return fail(no_answer("wait", connection_->where()));
          if (!answer && !backend_.may_wait_again(*connection_, request_))
            return fail(std::move(answer.error()));
        }
        TRY(done, attempt(answer && *answer ? &(*answer)->front() : nullptr));
        if (done) return std::move(*done);
        if (Clock::now() >= end) return last_;
        TRY(longest, backend_.send_wait(*connection_, request_));
        answer_by_ = later(Clock::now(), longest + options.op_timeout);
      }
    }
    Result<std::optional<Progress>> attempt(const SqlRows* waited) {
      auto& client = backend_.client_;
      for (unsigned closed = 0;; ++closed) {
        if (!connection_ || connection_->broken()) {
          client.drop(std::move(connection_));
          waited = nullptr;
          TRY(c, client.writer(client.usual_deadline()));
          connection_ = std::move(c);
          TRY_VOID(backend_.prepare(*connection_, request_, client.usual_deadline()));
        }
        const bool had_worked = connection_->used;
        const Deadline until = client.usual_deadline(), sent = Clock::now();
        auto token = backend_.take(*connection_, request_, waited, until);
        // The server had closed the connection while it was idle, so try again.
        if (!token && connection_->broken() && had_worked && closed < 2) continue;
        if (!token) return fail(std::move(token.error()));
        if (*token) {
          if (waited) ++backend_.wakeups_;
          return backend_.keep_grant(request_, std::move(connection_), **token, sent);
        }
        const auto read = [&](Connection& c) {
          return backend_.read_record(c, request_.key, until);
        };
        TRY(found, client.template run_on<LockRecord>(*connection_, until, false, read));
        last_ = {0, found.holder(), found.why(), sent};
        if (request_.wait) return std::nullopt;
        backend_.give_up(std::move(connection_), request_);
        return Busy{last_.holder, last_.why, sent};
      }
    }

    SqlHeldBackend& backend_;
    Request request_;
    std::unique_ptr<Connection> connection_;
    Deadline answer_by_{};
    Waiting last_;
  };

  Granted granted(Lease lease, Held& h, Deadline sent, Duration ttl) const {
    lease.token = h.token;
    lease.attached = true;
    lease.deadline = lease_end(sent, ttl);
    return Granted{std::move(lease), h.connection->fd(), h.alarm.get()};
  }
  // Ends a session whose lock is lost.
  void end(Held& h) {
    if (!h.connection) return;
    ::epoll_ctl(h.alarm.get(), EPOLL_CTL_DEL, h.connection->fd(), nullptr);
    h.connection->abandon();
    this->client_.drop(std::move(h.connection));
  }

  std::map<std::pair<std::string, Owner>, Held> held_;
};

}  // namespace dlock
