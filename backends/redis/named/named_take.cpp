// SPDX-License-Identifier: Apache-2.0
// The ways in which the recipes take a free lock.
#include <fmt/format.h>
#include "common/exchange.hpp"
#include "core/number.hpp"
#include "redis/named/named_backend.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

Result<Try> NamedBackend::take(const Script& script, const Request& request,
                               std::vector<std::string> args) {
  const NamedKey key = named(request.key);
  const Deadline sent = Clock::now();  // a time as value counts from here
  TRY(answer, client_->call({.what = "acquire",
                             .script = &script,
                             .keys = {key.lock, key.fence},
                             .words = std::move(args),
                             .in_grace = Command::InGrace::withheld},
                            client_->options().replicas));
  if (answer.grace_left > Duration{}) return in_grace(answer);
  const bool time = recipe_.value == NamedRecipe::Value::time;
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "granted") return granted(request, answer, time ? sent : answer.sent);
  if (verdict == "held") return taken_before(request);
  const bool has_look = verdict == "busy" && answer.reply.items.size() == 2;
  const auto seen = has_look ? Look::parse(answer.reply.items[1]) : std::nullopt;
  if (!seen) return fail(malformed_reply("acquire", where()));
  return busy(*seen);
}

Result<Try> NamedBackend::granted(const Request& request, const Answer& answer, Deadline sent) {
  const auto token = parse_number<std::uint64_t>(answer.reply.text_at(1));
  if (!token) return fail(malformed_reply("acquire", where()));
  Lease lease{request.key, request.owner};
  lease.token = *token;
  lease.deadline = lease_end(sent, request.ttl);
  if (const unsigned wanted = client_->options().replicas; answer.copies < wanted) {
    Error because{
        Errc::unavailable,
        fmt::format("acquire at {}: only {} of {} replicas confirmed the grant; it was given back",
                    where(), answer.copies, wanted)};
    const bool answered = give_back(lease);
    return Try{.undone = Try::Undone{std::move(lease), std::move(because), answered}};
  }
  client_->gave();
  return Try{.lease = std::move(lease)};
}

Result<Try> NamedBackend::taken_before(const Request& request) {
  TRY(renewal, renew({request.key, request.owner}, request.ttl));
  if (auto* kept = std::get_if<Kept>(&renewal)) return Try{.lease = std::move(kept->lease)};
  return Try{.free_in = Duration{}};  // it ended just now
}

Result<Try> NamedBackend::take_by_set(const Request& request) {
  return take(scripts::named_set_acquire, request,
              {request.owner.hex(), millis(request.ttl), request.identity.encode()});
}

Result<Try> NamedBackend::take_by_getset(const Request& request) {
  return take(scripts::named_getset_acquire, request,
              {request.owner.hex(), time_in(request.ttl), request.identity.encode(),
               fmt::format_int(wall_micros()).str(), unit()});
}

// ---- setnx-expire ------------------------------------------------------------------------------

Result<Try> NamedBackend::take_by_setnx(const Request& request) {
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
Result<Try> NamedBackend::complete(const Request& request, const NamedKey& key,
                                   const std::string& value) {
  const auto answer =
      call("acquire", scripts::named_grant, key,
           {request.owner.hex(), value, request.identity.encode(), millis(request.ttl)},
           client_->options().replicas);
  if (!answer) return fail(answer.error());
  if (answer->reply.text_at(0) == "granted") return granted(request, *answer, answer->sent);
  return Try{.free_in = Duration{}};  // it was removed meanwhile
}

Result<Try> NamedBackend::mend(const NamedKey& key, const Look& seen) {
  if (seen.left || seen.type != "string") return busy(seen);
  if (seen.value.starts_with(value_mark)) {
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
