// SPDX-License-Identifier: Apache-2.0
#include "redis/named/setnx_expire_backend.hpp"
#include <fmt/format.h>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

Result<Try> SetnxExpireBackend::try_once(const Request& request) {
  const NamedKey key = named(request.key);
  const std::string value = sign(request.owner) + millis(request.ttl);
  const auto set = client_->call(
      {"acquire", nullptr, {key.lock}, {"SETNX", key.lock, value}, Command::InGrace::withheld});
  if (!set) return fail(set.error());
  if (set->grace_left > Duration{}) return in_grace(*set);
  if (set->reply.integer == 1) return complete(request, key, value);
  TRY(seen, look(key));
  if (seen.value == value) return complete(request, key, value);  // by an earlier request of ours
  if (!seen.held()) return Try{.free_in = Duration{}};
  return mend(key, seen);
}

// The second command: if the lock is still ours, sets its end and the token.
Result<Try> SetnxExpireBackend::complete(const Request& request, const NamedKey& key,
                                         const std::string& value) {
  const auto answer =
      call("acquire", scripts::named_grant, key,
           {request.owner.hex(), value, request.identity.encode(), millis(request.ttl)},
           client_->options().replicas);
  if (!answer) return fail(answer.error());
  if (answer->reply.text_at(0) == "granted") return granted(request, *answer, answer->sent);
  return Try{.free_in = Duration{}};  // it was removed meanwhile
}

Result<Try> SetnxExpireBackend::mend(const NamedKey& key, const Look& seen) {
  if (seen.left || seen.type != "string") return busy(seen);
  if (seen.value.starts_with(mark)) {
    const auto ttl =
        parse_number<std::uint64_t>(std::string_view{seen.value}.substr(seen.value.rfind(':') + 1));
    if (ttl && *ttl > 0)
      TRY_VOID(call("give an end to a lock without", scripts::named_delete_stale, key,
                    {seen.value, fmt::format_int(*ttl).str()}));
    return busy(seen);
  }
  const auto stale_after = client_->options().stale_after;
  if (!stale_after) return busy(seen);
  if (!endless_ || endless_->lock != key.lock || endless_->value != seen.value)
    endless_ = {key.lock, seen.value, Clock::now()};
  if (Clock::now() < later(endless_->since, *stale_after)) return busy(seen);
  const auto removed =
      call("remove a stale lock", scripts::named_delete_stale, key, {seen.value, ""});
  if (!removed) return fail(removed.error());
  return Try{.free_in = Duration{}};
}

}  // namespace dlock::redis
