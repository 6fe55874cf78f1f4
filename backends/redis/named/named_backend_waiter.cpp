// SPDX-License-Identifier: Apache-2.0
// How each recipe takes a free lock.
#include <fmt/format.h>
#include "common/polling_waiter.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "redis/named/named_backend.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {
namespace {

class NamedWaiter final : public PollingWaiter {
 public:
  NamedWaiter(NamedBackend& backend, const Request& request)
      : PollingWaiter(request, backend.client().options().interrupt_fd),
        backend_(backend),
        client_(backend.client()),
        key_(backend.named(request.key)) {}
  Result<void> cancel() override;

 private:
  Result<Tried> try_once() override;
  Result<Tried> take_by_setnx();
  // Tries to take the lock. The script replies {'granted', token}, {'held', token} or {'busy',
  // state}.
  Result<Tried> take(const Script&, std::vector<std::string> args);
  Result<Tried> complete(const std::string& value);
  Result<Tried> mend(const NamedState&);
  // Returns the lease of {'granted', token}, if enough replicas have it.
  Result<Tried> granted(const TimedReply&, Deadline sent);
  Result<Tried> busy(const NamedState&) const;
  // Returns the result of a try in the server's grace period. No request was sent, because the
  // server grants nothing in this period.
  Result<Tried> in_grace(const TimedReply&);
  Command command(const Script*, std::vector<std::string> args) const;

  NamedBackend& backend_;
  Client& client_;
  const NamedKey key_;
  std::optional<Lease> owed_;  // a grant whose release got no reply
};

Result<PollingWaiter::Tried> NamedWaiter::try_once() {
  TRY_VOID(backend_.settle(owed_));
  const std::string owner = request_.owner.hex(), meta = request_.identity.encode();
  switch (backend_.value()) {
    case NamedBackend::Value::owner:
      return take(scripts::named_set_acquire, {owner, millis(request_.ttl), meta});
    case NamedBackend::Value::time:
      return take(scripts::named_getset_acquire,
                  {owner, backend_.time_in(request_.ttl), meta,
                   fmt::format_int(wall_micros()).str(), backend_.unit()});
    case NamedBackend::Value::marked: break;
  }
  return take_by_setnx();
}

Command NamedWaiter::command(const Script* script, std::vector<std::string> args) const {
  return {.what = "acquire",
          .script = script,
          .keys = {key_.lock, key_.fence},
          .args = std::move(args),
          .in_grace = Command::InGrace::withheld,
          .confirmed = script != nullptr};
}

Result<PollingWaiter::Tried> NamedWaiter::take(const Script& script,
                                               std::vector<std::string> args) {
  const Deadline sent = Clock::now();  // if the value is a time, it counts from now
  TRY(answer, client_.call(command(&script, std::move(args))));
  client_.in_grace_period = answer.grace_left > Duration{};
  if (client_.in_grace_period) return in_grace(answer);
  const bool time = backend_.value() == NamedBackend::Value::time;
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "granted") return granted(answer, time ? sent : answer.sent);
  // An earlier request of this owner got the lock. Renew now, and count the lease from the renewal.
  if (verdict == "held") {
    TRY(renewal, backend_.renew({request_.key, request_.owner}, request_.ttl));
    if (auto* kept = std::get_if<Kept>(&renewal)) return Tried{.lease = std::move(kept->lease)};
    return Tried{.free_in = Duration{}};  // the lease ended just now
  }
  const bool has_state = verdict == "busy" && answer.reply.items.size() == 2;
  const auto state = has_state ? NamedState::parse(answer.reply.items[1]) : std::nullopt;
  if (!state) return fail(malformed_reply("acquire", backend_.where()));
  return busy(*state);
}

Result<PollingWaiter::Tried> NamedWaiter::granted(const TimedReply& answer, Deadline sent) {
  const auto token = parse_number<std::uint64_t>(answer.reply.text_at(1));
  if (!token) return fail(malformed_reply("acquire", backend_.where()));
  Lease lease{request_.key, request_.owner};
  lease.token = *token;
  lease.deadline = lease_end(sent, request_.ttl);
  if (answer.copies < client_.options().replicas)
    return fail(backend_.undo(lease, answer.copies, request_, owed_));
  backend_.has_granted = true;
  return Tried{.lease = std::move(lease)};
}

Result<PollingWaiter::Tried> NamedWaiter::busy(const NamedState& state) const {
  Tried t{.holder = backend_.holder(state), .free_in = backend_.left(state)};
  for (const auto& note : backend_.notes(state)) add_part(t.why, note, "; ");
  return t;
}

Result<PollingWaiter::Tried> NamedWaiter::in_grace(const TimedReply& answer) {
  const std::string note = grace_note(client_.options().restart_grace, answer.grace_left);
  if (request_.wait) return Tried{.free_in = answer.grace_left, .why = note};
  return fail(Errc::unavailable, "{}: {}", backend_.where(), note);
}

Result<void> NamedWaiter::cancel() {
  if (!client_.ever_connected()) return {};
  const bool settled = backend_.settle(owed_).has_value();
  TRY_VOID(backend_.release({request_.key, request_.owner}, std::nullopt));
  if (settled) return {};
  return fail(Errc::timed_out, "give up at {}: a grant was not given back", backend_.where());
}

// ---- setnx-expire ------------------------------------------------------------------------------

Result<PollingWaiter::Tried> NamedWaiter::take_by_setnx() {
  const std::string value = backend_.sign(request_.owner) + millis(request_.ttl);
  TRY(set, client_.call(command(nullptr, {"SETNX", key_.lock, value})));
  client_.in_grace_period = set.grace_left > Duration{};
  if (client_.in_grace_period) return in_grace(set);
  if (set.reply.integer == 1) return complete(value);
  TRY(state, backend_.read_state(key_));
  if (state.value == value) return complete(value);  // an earlier request of ours got the lock
  if (!state.held()) return Tried{.free_in = Duration{}};
  return mend(state);
}

// Sends the second command, a script that sets expiry and token if the lock is still ours.
Result<PollingWaiter::Tried> NamedWaiter::complete(const std::string& value) {
  Command grant =
      command(&scripts::named_grant,
              {request_.owner.hex(), value, request_.identity.encode(), millis(request_.ttl)});
  grant.in_grace = Command::InGrace::sent;
  TRY(answer, client_.call(grant));
  if (answer.reply.text_at(0) == "granted") return granted(answer, answer.sent);
  return Tried{.free_in = Duration{}};  // the lock was removed meanwhile
}

Result<PollingWaiter::Tried> NamedWaiter::mend(const NamedState& state) {
  if (state.left || state.type != "string") return busy(state);
  const auto delete_stale = [&](std::string_view what, std::string end) {
    return client_.call({.what = what,
                         .script = &scripts::named_delete_stale,
                         .keys = {key_.lock, key_.fence},
                         .args = {state.value, std::move(end)}});
  };
  if (state.value.starts_with(value_mark)) {
    const auto ttl = parse_number<std::uint64_t>(
        std::string_view{state.value}.substr(state.value.rfind(':') + 1));
    if (ttl && *ttl > 0)
      TRY_VOID(delete_stale("give an end to a lock without", fmt::format_int(*ttl).str()));
    return busy(state);
  }
  const auto stale_after = client_.options().stale_after;
  if (!stale_after) return busy(state);
  auto& endless = backend_.endless;
  if (!endless || endless->lock != key_.lock || endless->value != state.value)
    endless = {key_.lock, state.value, Clock::now()};
  if (Clock::now() < later(endless->since, *stale_after)) return busy(state);
  TRY_VOID(delete_stale("remove a stale lock", ""));
  return Tried{.free_in = Duration{}};
}

}  // namespace

Result<std::unique_ptr<Waiter>> NamedBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits_, request));
  if (options().topology == Options::Topology::cluster && !named(request.key).same_slot)
    return fail(
        cannot("in a cluster, --key with a '}' needs a part in braces before that, as in a{b}c, "
               "and something in these: all of the key chooses the server otherwise, and the fence "
               "could not be there"));
  TRY_VOID(within_grace({request.ttl}, options().restart_grace));
  return std::make_unique<NamedWaiter>(*this, request);
}

}  // namespace dlock::redis
