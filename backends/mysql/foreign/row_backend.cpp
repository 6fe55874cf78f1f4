// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/row_backend.hpp"
#include <algorithm>
#include "common/polling_waiter.hpp"

namespace dlock::mysql {

class RowWaiter final : public PollingWaiter {
 public:
  RowWaiter(RowBackend& backend, const Request& request)
      : PollingWaiter(request, backend.client_.options().interrupt_fd), backend_(backend) {}
  Result<void> cancel() override;

 private:
  Result<Tried> try_once() override;

  RowBackend& backend_;
  bool requested_ = false;
};

Result<PollingWaiter::Tried> RowWaiter::try_once() {
  requested_ = true;
  TRY(answer, backend_.try_once(request_));
  Tried tried;
  if (answer.token) {
    tried.lease.emplace(Lease{request_.key, request_.owner});
    tried.lease->token = *answer.token;
    tried.lease->deadline = lease_end(answer.sent, request_.ttl);
    return tried;
  }
  const auto& found = answer.found;
  tried.holder = found.holder();
  tried.why = found.why();
  if (found.ours || found.ending)
    tried.free_in = Duration{std::max<Micros>(0, found.left + backend_.skew_)};
  return tried;
}

Result<void> RowWaiter::cancel() {
  if (!requested_) return {};
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  return {};
}

Result<std::unique_ptr<Waiter>> RowBackend::enqueue(const Request& r) {
  TRY_VOID(check_request(r));
  return std::make_unique<RowWaiter>(*this, r);
}

Result<RowBackend::Try> RowBackend::try_once(const Request& r) {
  const std::string name = name_of(r.key);
  std::optional<Deadline> unclear;
  auto tried = client_.run<Try>(client_.usual_deadline(), true, [&](Connection& c) -> Result<Try> {
    const Deadline sent = Clock::now();
    use_clock_of(c);
    auto t = try_over(c, name, r, client_.usual_deadline());
    if (!t && c.broken() && !unclear) unclear = sent;
    return t;
  });
  // An earlier request, whose reply was lost, may have taken the lock. So count the lease from that
  // request.
  if (tried && tried->token && unclear) tried->sent = std::min(tried->sent, *unclear);
  return tried;
}

Result<Renewal> RowBackend::renew(const Lease& lease, Duration ttl) {
  const std::string name = name_of(lease.key);
  Deadline sent{};
  TRY(token,
      client_.run<std::optional<FencingToken>>(client_.usual_deadline(), true, [&](Connection& c) {
        sent = Clock::now();
        return renew_over(c, name, lease.owner, ttl, client_.usual_deadline());
      }));
  if (!token)
    return Lost{"the database does not have it any more: it expired, or was removed or replaced"};
  Lease kept{lease.key, lease.owner};
  kept.token = *token;
  kept.deadline = lease_end(sent, ttl);
  return Kept{std::move(kept)};
}

Result<Released> RowBackend::release(const Lease& lease, std::optional<RunEnd>) {
  const std::string name = name_of(lease.key);
  bool unclear = false;
  auto done = client_.run_if_there<bool>([&](Connection& c) {
    auto r = release_over(c, name, lease.owner, client_.usual_deadline());
    unclear |= !r && c.broken();
    return r;
  });
  if (!done) {
    if (unclear) unanswered_.add(lease);
    return fail(std::move(done.error()));
  }
  return unanswered_.answered(lease, *done, unclear);
}

}  // namespace dlock::mysql
