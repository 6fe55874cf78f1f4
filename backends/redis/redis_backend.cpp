// SPDX-License-Identifier: Apache-2.0
#include "redis/redis_backend.hpp"
#include <fmt/format.h>
#include "redis/doctor.hpp"

namespace dlock::redis {
namespace {

// Returns the number in a script's reply, which is the reply itself or its first element.
std::optional<std::int64_t> number_in(const TimedReply& answer) {
  const Reply& r = answer.reply;
  return r.is(Reply::Type::integer) ? std::optional{r.integer} : r.number_at(0);
}

}  // namespace

Result<std::vector<Finding>> RedisBackend::doctor() { return examine_all(*client_, traits_); }

Error RedisBackend::undo(const Lease& lease, std::int64_t copies, Request& request,
                         std::optional<Lease>& owed) {
  owed = lease;
  (void)settle(owed);
  request.owner = Owner::random();
  return {
      Errc::unavailable,
      fmt::format("acquire at {}: only {} of {} replicas confirmed the grant; it was given back",
                  where(), copies, options().replicas)};
}

Result<void> RedisBackend::settle(std::optional<Lease>& owed) {
  if (!owed) return {};
  const auto answer = release(*owed, std::nullopt);
  if (!answer && retryable(answer.error().code) && Clock::now() < owed->deadline)
    return fail(Errc::unavailable, "acquire at {}: a grant that was given back is still there",
                where());
  owed.reset();
  return {};
}

Result<Released> RedisBackend::released(const Lease& lease, const Result<TimedReply>& answer) {
  if (!answer) {
    if (answer.error().code == Errc::timed_out) unanswered_.add(lease);
    return fail(answer.error());
  }
  const auto removed = number_in(*answer);
  if (!removed) return fail(malformed_reply("release", where()));
  return unanswered_.answered(lease, *removed == 1, answer->repeated);
}

Result<Released> RedisBackend::force_released(const TimedReply& answer) const {
  const auto removed = number_in(answer);
  if (!removed) return fail(malformed_reply("force a release", where()));
  if (*removed > 0 || answer.repeated) return Released::yes;
  return none_found("force a release", answer);
}

Result<Released> RedisBackend::none_found(std::string_view what, const TimedReply& answer) const {
  if (answer.grace_left == Duration{}) return Released::was_not_held;
  return fail(Errc::unavailable, "{} at {}: no holder is found; {}", what, where(),
              client_->unread(answer));
}

Result<void> RedisBackend::confirmed(std::string_view what, const TimedReply& answer,
                                     Errc otherwise) const {
  const unsigned wanted = options().replicas;
  if (answer.copies >= wanted) return {};
  return fail(otherwise, "{} at {}: only {} of {} replicas confirmed it", what, where(),
              answer.copies, wanted);
}

Result<void> RedisBackend::remove(const std::string& slot, const std::string& lock,
                                  const std::string& other) {
  TRY_VOID(client_->call({.what = "remove", .keys = {slot}, .args = {"DEL", lock, other}}));
  return {};
}

}  // namespace dlock::redis
