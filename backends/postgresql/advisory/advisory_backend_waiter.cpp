// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include "postgresql/advisory/advisory_backend.hpp"

namespace dlock::postgresql {
namespace {

using namespace std::chrono_literals;

// A statement that waits makes the server keep the dead versions of all rows. So after this time
// dlock sends the statement again, which makes it the last in the server's queue.
constexpr Duration longest_wait = 5s;

}  // namespace

class AdvisoryWaiter final : public Waiter {
 public:
  AdvisoryWaiter(AdvisoryBackend& backend, const Request& request, AdvisoryBackend::Lock lock)
      : backend_(backend), request_(request), lock_(std::move(lock)) {}
  ~AdvisoryWaiter() override { backend_.client_.drop(std::move(connection_)); }
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<Progress> step(Deadline end);
  Result<std::optional<Progress>> attempt();
  Result<void> connect();

  AdvisoryBackend& backend_;
  const Request request_;
  const AdvisoryBackend::Lock lock_;
  std::unique_ptr<Connection> connection_;
  Deadline answer_by_{};
  Waiting last_;
};

Result<std::unique_ptr<Waiter>> AdvisoryBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits_, r));
  TRY(lock, lock_of(r.key));
  return std::make_unique<AdvisoryWaiter>(*this, r, std::move(lock));
}

Result<void> AdvisoryWaiter::connect() {
  if (connection_ && !connection_->broken()) return {};
  backend_.client_.drop(std::move(connection_));
  TRY(c, backend_.client_.connection(backend_.client_.usual_deadline()));
  connection_ = std::move(c);
  if (!connection_->facts().proxied) return {};
  return fail(backend_.cannot(
      "behind a pooler a lock ends up with the next user of the session; connect to the server "
      "itself, or use recipe lease"));
}

// After a wait that was successful, the session has the lock already, and takes it again.
Result<std::optional<Progress>> AdvisoryWaiter::attempt() {
  const Deadline until = backend_.client_.usual_deadline();
  for (unsigned closed = 0;; ++closed) {
    TRY_VOID(connect());
    const bool had_worked = connection_->used;
    const Deadline sent = Clock::now();
    const Call calls[] = {backend_.set_timeout(request_.ttl),
                          {backend_.sql_.take,
                           {lock_.value, lock_.record, request_.owner.hex(),
                            std::to_string(request_.ttl.count()), request_.identity.encode()}}};
    auto taken = backend_.client_.run_on<SqlAnswers>(*connection_, until, true, [&](Connection& c) {
      return c.exchange("acquire", calls, until);
    });
    // If the server has closed an idle connection meanwhile, try again.
    if (!taken && connection_->broken() && had_worked && closed < 2) continue;
    if (!taken) return fail(std::move(taken.error()));
    if (const auto token = taken->back().number<FencingToken>(0)) {
      return backend_.keep_grant(request_, std::move(connection_), *token, sent);
    }
    TRY(found, backend_.read_record(*connection_, lock_, until));
    last_.holder = found.holder();
    last_.why = found.why();
    last_.sent_at = sent;
    if (request_.wait) return std::nullopt;
    backend_.client_.give_back(std::move(connection_));
    return Busy{last_.holder, last_.why, sent};
  }
}

Result<Progress> AdvisoryWaiter::step(Deadline end) {
  for (;;) {
    if (connection_ && connection_->under_way()) {
      TRY(answer, connection_->receive(
                      {std::min(end, answer_by_), backend_.client_.options().interrupt_fd}));
      if (!answer && Clock::now() < answer_by_) return last_;
      if (!answer) return fail(no_answer("wait", connection_->where()));
      ++backend_.wakeups_;
    }
    TRY(done, attempt());
    if (done) return std::move(*done);
    if (Clock::now() >= end) return last_;
    const Duration patience = backend_.client_.options().op_timeout;
    const SqlStatement sleep = backend_.sql_.wait(lock_.value, longest_wait);
    const Call wait[] = {{sleep}};
    TRY_VOID(connection_->send("wait", wait, later(Clock::now(), patience)));
    answer_by_ = later(Clock::now(), longest_wait + patience);
  }
}

Result<Progress> AdvisoryWaiter::poll(Duration slice) {
  last_.sent_at = {};
  TRY(again, backend_.repeat_grant(request_));
  if (again) return std::move(*again);
  auto done = step(later(Clock::now(), slice));
  // The locks that the session has, or was about to get, end with the session.
  if (!done) backend_.client_.drop(std::move(connection_));
  return done;
}

Result<void> AdvisoryWaiter::cancel() {
  Client& client = backend_.client_;
  // Another session ends the wait. Then this session is closed, which also ends what it was granted
  // meanwhile.
  if (const int pid = client.end_wait(connection_.get())) {
    const Deadline until = client.usual_deadline();
    (void)client.ask_to_end(pid, until);
    client.drop_waiting(std::move(connection_), until);
  }
  client.give_back(std::move(connection_));
  if (!backend_.held_by(request_.key, request_.owner)) return {};
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  return {};
}

}  // namespace dlock::postgresql
