// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include "mysql/foreign/held_backend.hpp"

namespace dlock::mysql {
namespace {

using namespace std::chrono_literals;

constexpr Duration longest_wait = 10s;

}  // namespace

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
  Request request_;  // with another owner after each undo
  std::string name_;
  std::unique_ptr<Connection> connection_;
  Deadline answer_by_{};
  Waiting last_;
  bool looked_ = false;
};

Result<std::unique_ptr<Waiter>> HeldBackend::enqueue(const Request& r) {
  TRY_VOID(accept(r, longest_name()));
  return std::make_unique<HeldWaiter>(*this, r);
}

// ---- waiting -----------------------------------------------------------------------------------
Result<void> HeldWaiter::connect() {
  if (connection_ && !connection_->broken()) return {};
  backend_.client_.drop(std::move(connection_));
  const Deadline until = backend_.client_.usual_deadline();
  TRY(c, backend_.client_.take_writer(until));
  connection_ = std::move(c);
  TRY_VOID(backend_.fit(connection_->facts()));
  TRY_VOID(connection_->wait_timeout(request_.ttl, until));
  return backend_.client_
      .run_on<std::monostate>(*connection_, until, backend_.schema_,
                              [&](Connection& s) -> Result<std::monostate> {
                                TRY_VOID(backend_.prepare(s, name_, until));
                                return std::monostate{};
                              })
      .map([](std::monostate) {});
}

Result<Progress> HeldWaiter::granted(FencingToken token, Deadline sent) {
  HeldBackend::HeldSession h;
  h.connection = std::move(connection_);
  h.connection->patient = true;
  h.token = token;
  Granted g{{request_.key, request_.owner}, h.connection->fd(), h.connection->alarm()};
  g.lease.token = token;
  g.lease.attached = true;
  g.lease.deadline = lease_end(sent, request_.ttl);
  backend_.held_.insert_or_assign({request_.key.text(), request_.owner}, std::move(h));
  return Progress{std::move(g)};
}

std::optional<HolderView> HeldWaiter::holder(std::string& why) {
  const auto r = backend_.look(name_);
  why.clear();
  if (!r || !r->held) return std::nullopt;
  for (const auto& n : backend_.notes(*r)) why += (why.empty() ? "" : "; ") + n;
  return backend_.view(*r);
}

Progress HeldWaiter::waiting() {
  if (!std::exchange(looked_, true)) last_.holder = holder(last_.why);
  return Progress{last_};
}

// The locks that the session has, or was about to get, end with it.
Result<Progress> HeldWaiter::failed(Error e) {
  backend_.client_.drop(std::move(connection_));
  return fail(std::move(e));
}

Result<Progress> HeldWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  if (name_.empty()) name_ = backend_.name_of(request_.key);
  if (auto* h = backend_.mine(request_.key, request_.owner)) {  // repeated for a lock that we hold
    TRY(again, backend_.renew({request_.key, request_.owner}, request_.ttl));
    if (auto* kept = std::get_if<Kept>(&again))
      return Progress{Granted{std::move(kept->lease), h->connection->fd(), h->connection->alarm()}};
    backend_.held_.erase({request_.key.text(), request_.owner});
  }
  for (unsigned breaks = 0;;) {
    if (!connection_ || !connection_->under_way()) {
      const bool fresh = !connection_;
      if (auto ok = connect(); !ok) return failed(std::move(ok.error()));
      if (fresh || !request_.wait || slice <= 0us) {
        const Deadline until = backend_.client_.usual_deadline(), sent = Clock::now();
        const bool had_worked = connection_->used && fresh;
        auto token = backend_.client_.run_on<std::optional<FencingToken>>(
            *connection_, until, backend_.schema_,
            [&](Connection& c) { return backend_.try_now(c, name_, request_, until); });
        if (!token) {
          // An idle connection that the server has closed meanwhile.
          if (connection_->broken() && had_worked && ++breaks <= 2) continue;
          return failed(std::move(token.error()));
        }
        if (*token) return granted(**token, sent);
        if (!request_.wait) {
          Busy busy;
          busy.holder = holder(busy.why);
          if (backend_.undo(*connection_, name_, until))
            backend_.client_.give_back(std::move(connection_));
          return Progress{std::move(busy)};
        }
        looked_ = false;
        if (Clock::now() >= end) return waiting();
      }
      if (auto ok = backend_.before_wait(*connection_, name_, backend_.client_.usual_deadline());
          !ok)
        return failed(std::move(ok.error()));
      if (auto ok = connection_->send(
              "wait", backend_.wait(name_, std::chrono::duration<double>(longest_wait).count()));
          !ok)
        return failed(std::move(ok.error()));
      answer_by_ = later(Clock::now(), longest_wait + backend_.client_.options().op_timeout);
    }
    auto answer =
        connection_->receive({std::min(end, answer_by_), backend_.client_.options().interrupt_fd});
    if (!answer) {
      // A deadlock or the statement's timeout: nothing is held, try again.
      if (connection_->remedy() == Remedy::later &&
          backend_.undo(*connection_, name_, backend_.client_.usual_deadline())) {
        request_.owner = Owner::random();
        if (Clock::now() >= end) return waiting();
        continue;
      }
      return failed(std::move(answer.error()));
    }
    if (!*answer) {
      if (Clock::now() < answer_by_) return waiting();
      return failed({Errc::unavailable, "wait: no answer in time"});
    }
    if (backend_.got(**answer)) {
      ++backend_.wakeups_;
      const Deadline until = backend_.client_.usual_deadline(), sent = Clock::now();
      // No table is created here: that would end the transaction that has the lock.
      auto token = backend_.client_.run_on<FencingToken>(
          *connection_, until, "",
          [&](Connection& c) { return backend_.note(c, name_, request_, until); });
      if (!token) return failed(std::move(token.error()));
      return granted(*token, sent);
    }
    looked_ = false;
    if (Clock::now() >= end) return waiting();
  }
}

Result<void> HeldWaiter::cancel() {
  if (connection_ && connection_->under_way()) (void)backend_.client_.end_wait(*connection_);
  if (connection_ && !connection_->under_way() && !connection_->broken() &&
      backend_.undo(*connection_, name_, backend_.client_.usual_deadline()))
    backend_.client_.give_back(std::move(connection_));
  backend_.client_.drop(std::move(connection_));
  if (!backend_.mine(request_.key, request_.owner)) return {};
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  return {};
}

}  // namespace dlock::mysql
