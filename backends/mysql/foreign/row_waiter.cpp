// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/row_waiter.hpp"
#include <algorithm>

namespace dlock::mysql {

RowWaiter::RowWaiter(RowBackend& backend, const Request& request)
    : PollingWaiter(request, backend.client().options().interrupt_fd), backend_(backend) {}

Result<PollingWaiter::Tried> RowWaiter::try_once() {
  asked_ = true;
  auto answer = backend_.try_once(request_);
  if (!answer) return fail(std::move(answer.error()));
  Tried tried;
  if (answer->token) {
    tried.lease.emplace(Lease{request_.key, request_.owner});
    tried.lease->token = *answer->token;
    tried.lease->deadline = lease_end(answer->sent, request_.ttl);
    return tried;
  }
  const auto& seen = answer->seen;
  if (seen.held) tried.holder = RowBackend::view(seen);
  for (const auto& note : backend_.notes(seen)) tried.why += (tried.why.empty() ? "" : "; ") + note;
  if (seen.ours || seen.ending)
    tried.free_in = Duration{std::max<Micros>(0, seen.until + backend_.skew_ - seen.now)};
  return tried;
}

Result<void> RowWaiter::cancel() {
  if (!asked_) return {};
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  return {};
}

}  // namespace dlock::mysql
