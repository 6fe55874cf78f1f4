// SPDX-License-Identifier: Apache-2.0
#include "redis/named/named_waiter.hpp"
#include <fmt/format.h>

namespace dlock::redis {

NamedWaiter::NamedWaiter(NamedBackend& backend, const Request& request)
    : PollingWaiter(request, backend.client().options().interrupt_fd), backend_(backend) {}

Result<PollingWaiter::Tried> NamedWaiter::try_once() {
  if (owed_ && !backend_.give_back(*owed_))
    return fail(
        Errc::unavailable,
        fmt::format("acquire at {}: a grant that was given back is still there", backend_.where()));
  owed_.reset();
  TRY(tried, backend_.try_once(request_));
  backend_.client().grants_nothing = tried.no_grants;
  // that release may arrive late, so nothing is acquired under this owner any more
  if (tried.undone) {
    if (!tried.undone->answered) owed_ = std::move(tried.undone->lease);
    request_.owner = Owner::random();
    return fail(std::move(tried.undone->because));
  }
  if (tried.no_grants && !request_.wait)
    return fail(Errc::unavailable, fmt::format("{}: {}", backend_.where(), tried.why));
  return Tried{std::move(tried.lease), std::move(tried.holder), tried.free_in,
               std::move(tried.why)};
}

Result<void> NamedWaiter::cancel() {
  if (!backend_.client().ever_connected()) return {};
  if (owed_ && backend_.give_back(*owed_)) owed_.reset();
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  if (owed_)
    return fail(Errc::timed_out,
                fmt::format("give up at {}: a grant was not given back", backend_.where()));
  return {};
}

}  // namespace dlock::redis
