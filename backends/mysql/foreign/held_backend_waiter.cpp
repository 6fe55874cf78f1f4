// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
  Progress waiting();
  Progress keep_grant(FencingToken token, Deadline sent) {
    return Progress{backend_.keep_grant(request_, std::move(connection_), token, sent)};
  }
  std::optional<HolderView> holder(std::string& why);
  Result<Progress> failed(Error);

  HeldBackend& backend_;
  Request request_;  // its owner changes after each undo()
  std::string name_;
  std::unique_ptr<Connection> connection_;
  Deadline waits_since_{};  // a time before the wait was sent
  Deadline answer_by_{};
  Waiting last_;
  bool holder_read_ = false;
};

Result<std::unique_ptr<Waiter>> HeldBackend::enqueue(const Request& r) {
  TRY_VOID(check_request(r));
  return std::make_unique<HeldWaiter>(*this, r);
}

// ---- waiting -----------------------------------------------------------------------------------
Result<void> HeldWaiter::connect() {
  if (connection_ && !connection_->broken()) return {};
  backend_.client_.drop(std::move(connection_));
  const Deadline until = backend_.client_.usual_deadline();
  TRY(c, backend_.client_.writer(until));
  connection_ = std::move(c);
  TRY_VOID(backend_.check_server(connection_->facts()));
  TRY_VOID(connection_->wait_timeout(request_.ttl, until));
  const auto prepare = [&](Connection& s) {
    return backend_.prepare(s, name_, until).map([] { return true; });
  };
  TRY_VOID(backend_.client_.run_on<bool>(*connection_, until, true, prepare));
  return {};
}

std::optional<HolderView> HeldWaiter::holder(std::string& why) {
  const auto r = backend_.read_record(request_.key);
  why = r ? r->why() : "";
  return r ? r->holder() : std::nullopt;
}

Progress HeldWaiter::waiting() {
  if (!std::exchange(holder_read_, true)) last_.holder = holder(last_.why);
  return last_;
}

// Drops the session: the locks that it has, or was about to get, end with it.
Result<Progress> HeldWaiter::failed(Error e) {
  backend_.client_.drop(std::move(connection_));
  return fail(std::move(e));
}

Result<Progress> HeldWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  last_.sent_at = {};
  if (name_.empty()) name_ = backend_.name_of(request_.key);
  TRY(again, backend_.repeat_grant(request_));
  if (again) return std::move(*again);
  for (unsigned breaks = 0;;) {
    if (!connection_ || !connection_->under_way()) {
      const bool fresh = !connection_;
      if (auto ok = connect(); !ok) return failed(std::move(ok.error()));
      if (fresh || !request_.wait || slice <= 0us) {
        const Deadline until = backend_.client_.usual_deadline(), sent = Clock::now();
        const bool had_worked = connection_->used && fresh;
        auto token = backend_.client_.run_on<std::optional<FencingToken>>(
            *connection_, until, true,
            [&](Connection& c) { return backend_.try_now(c, name_, request_, until); });
        if (!token) {
          // The server had closed the connection while it was idle.
          if (connection_->broken() && had_worked && ++breaks <= 2) continue;
          return failed(std::move(token.error()));
        }
        if (*token) return keep_grant(**token, sent);
        if (!request_.wait) {
          Busy busy{.holder = {}, .sent_at = sent};
          busy.holder = holder(busy.why);
          if (backend_.undo(*connection_, name_, until))
            backend_.client_.give_back(std::move(connection_));
          return Progress{std::move(busy)};
        }
        holder_read_ = false;
        last_.sent_at = sent;
        if (Clock::now() >= end) return waiting();
      }
      if (auto ok = backend_.before_wait(*connection_, name_, backend_.client_.usual_deadline());
          !ok)
        return failed(std::move(ok.error()));
      waits_since_ = Clock::now();
      if (auto ok = connection_->send(
              "wait", backend_.wait(name_, std::chrono::duration<double>(longest_wait).count()));
          !ok)
        return failed(std::move(ok.error()));
      answer_by_ = later(waits_since_, longest_wait + backend_.client_.options().op_timeout);
    }
    auto answer =
        connection_->receive({std::min(end, answer_by_), backend_.client_.options().interrupt_fd});
    if (!answer) {
      // After a deadlock or a timeout of the statement, the session holds no lock, so try again.
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
    if (backend_.was_granted(answer->value().front())) {
      ++backend_.wakeups_;
      const Deadline until = backend_.client_.usual_deadline(), sent = Clock::now();
      // Do not create the table: that would end the transaction that has the lock.
      auto token = backend_.client_.run_on<FencingToken>(
          *connection_, until, false,
          [&](Connection& c) { return backend_.record_grant(c, name_, request_, until); });
      if (!token) return failed(std::move(token.error()));
      return keep_grant(*token, sent);
    }
    holder_read_ = false;
    last_.sent_at = waits_since_;
    if (Clock::now() >= end) return waiting();
  }
}

Result<void> HeldWaiter::cancel() {
  (void)backend_.client_.end_wait(connection_.get());
  if (connection_ && !connection_->under_way() && !connection_->broken() &&
      backend_.undo(*connection_, name_, backend_.client_.usual_deadline()))
    backend_.client_.give_back(std::move(connection_));
  backend_.client_.drop(std::move(connection_));
  if (!backend_.held_by(request_.key, request_.owner)) return {};
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  return {};
}

}  // namespace dlock::mysql
