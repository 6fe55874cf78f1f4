// SPDX-License-Identifier: Apache-2.0
#include "redis/named/getset_backend.hpp"
#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include "redis/fair/fair_record.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

std::string GetsetBackend::time_in(Duration ttl) const {
  const Micros unit = client_->options().unit;
  return fmt::format_int((wall_micros() + ttl.count() + unit - 1) / unit + 1).str();
}

// Other programs write decimals, too.
std::optional<Micros> GetsetBackend::time_of(std::string_view value) const {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc{} || end != value.data() + value.size() ||
      !std::isfinite(number))
    return std::nullopt;
  const double at = number * static_cast<double>(client_->options().unit);
  return at < 0 || at > 9e15 ? std::nullopt : std::optional{static_cast<Micros>(at)};
}

std::optional<Duration> GetsetBackend::left(const Look& look) const {
  const auto ends = time_of(look.value);
  if (!ends) return look.left;
  return Duration{std::max<Micros>(0, *ends - look.now)};
}

std::vector<std::string> GetsetBackend::release_words(const Owner& owner) const {
  return {owner.hex(), "", fmt::format_int(client_->options().unit).str()};
}

Result<Try> GetsetBackend::try_once(const Request& request) {
  const NamedKey key = named(request.key);
  const Deadline sent = Clock::now();  // the value counts from here
  const auto answer =
      client_->call(Command{"acquire",
                            &scripts::named_getset_acquire,
                            {key.lock, key.fence},
                            {request.owner.hex(), time_in(request.ttl), request.identity.encode(),
                             fmt::format_int(wall_micros()).str(),
                             fmt::format_int(client_->options().unit).str()},
                            Command::InGrace::withheld},
                    client_->options().replicas);
  if (!answer) return fail(answer.error());
  return tried(request, *answer, sent);
}

Result<Renewal> GetsetBackend::renew(const Lease& lease, Duration ttl) {
  TRY_VOID(may_extend(ttl));
  const auto answer =
      call("renew", scripts::named_getset_renew, named(lease.key),
           {lease.owner.hex(), time_in(ttl), fmt::format_int(client_->options().unit).str()},
           client_->options().replicas, 0);
  return renewed(answer, lease, ttl);
}

}  // namespace dlock::redis
