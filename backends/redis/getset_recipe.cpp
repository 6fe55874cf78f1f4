// SPDX-License-Identifier: Apache-2.0
#include "redis/getset_recipe.hpp"
#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include "redis/record.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

std::string GetsetBackend::time_in(Duration ttl) const {
  const Micros unit = client_->options().unit;
  return fmt::format_int((wall_micros() + ttl.count() + unit - 1) / unit + 1).str();
}

// Others write decimals, too.
std::optional<Micros> GetsetBackend::time_of(std::string_view value) const {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc{} || end != value.data() + value.size() || !std::isfinite(number)) return std::nullopt;
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
  std::string value = time_in(request.ttl);
  const Deadline sent = Clock::now();
  const auto set = client_->call({"acquire", nullptr, {key.lock}, {"SETNX", key.lock, value}, true});
  if (!set) return fail(set.error());
  if (set->grace_left > Duration{}) return in_grace(*set);
  if (set->reply.integer == 1) return won(request, key, value, sent);

  const auto seen = look(key);
  if (!seen) return fail(seen.error());
  if (!seen->held()) return Try{.free_in = Duration{}};
  const auto ends = time_of(seen->value);
  if (!ends || *ends > wall_micros()) {
    if (ends && seen->ours() && seen->record->owner == request.owner.hex()) return taken_before(request);
    return busy(*seen);
  }
  value = time_in(request.ttl);
  const Deadline sent_again = Clock::now();
  const auto old = client_->call({"take over", nullptr, {key.lock}, {"GETSET", key.lock, value}, true});
  if (!old) return fail(old.error());
  if (old->grace_left > Duration{}) return in_grace(*old);
  if (old->reply.is(Reply::Type::nil) || old->reply.text == seen->value) return won(request, key, value, sent_again);
  if (auto ok = call("put the time back", scripts::named_getset_restore, key, {value, old->reply.text}); !ok)
    return fail(std::move(ok.error()));
  const auto winner = look(key);
  if (!winner) return fail(winner.error());
  return busy(*winner);
}

Result<Try> GetsetBackend::won(const Request& request, const NamedKey& key, const std::string& value, Deadline sent) {
  const auto answer = call("acquire", scripts::named_grant, key, {request.owner.hex(), value, request.identity.encode()},
                           client_->options().replicas);
  if (!answer) return fail(answer.error());
  if (answer->reply.text_at(0) == "granted") return granted(request, *answer, sent);
  return Try{};  // a loser has overwritten the time: nobody has it until that has passed
}

Result<Renewal> GetsetBackend::renew(const Lease& lease, Duration ttl) {
  const auto answer =
      call("renew", scripts::named_getset_renew, named(lease.key),
           {lease.owner.hex(), time_in(ttl), fmt::format_int(client_->options().unit).str()}, client_->options().replicas);
  return renewed(answer, lease, ttl);
}

}  // namespace dlock::redis
