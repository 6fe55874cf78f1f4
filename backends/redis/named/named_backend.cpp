// SPDX-License-Identifier: Apache-2.0
#include "redis/named/named_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "redis/doctor.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/named/named_waiter.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

Error NamedBackend::not_understood(std::string_view what) const {
  return {Errc::protocol, fmt::format("{} at {}: malformed reply", what, where())};
}

Result<Answer> NamedBackend::call(std::string_view what, const Script& script, const NamedKey& key,
                                  std::vector<std::string> args, unsigned copies,
                                  std::size_t enough) {
  return client_->call(
      {what, &script, {key.lock, key.fence}, std::move(args), Command::InGrace::sent, enough},
      copies);
}

Result<std::unique_ptr<Waiter>> NamedBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits_, request));
  if (client_->options().topology == Options::Topology::cluster && !named(request.key).same_slot)
    return fail(
        cannot("in a cluster, --key with a '}' needs a part in braces before that, as in a{b}c, "
               "and something in these: all of "
               "the key chooses the server otherwise, and the fence could not be there"));
  TRY_VOID(within_grace({request.ttl}, client_->options().restart_grace));
  return std::make_unique<NamedWaiter>(*this, request);
}

Result<Renewal> NamedBackend::renew(const Lease& lease, Duration ttl) {
  TRY_VOID(may_extend(ttl));
  const std::string mark = sign(lease.owner);
  return renewed(
      call("renew", scripts::named_renew, named(lease.key), {lease.owner.hex(), mark, millis(ttl)},
           client_->options().replicas, mark.empty() ? 0 : 1),
      lease, ttl);
}

Result<Renewal> NamedBackend::renewed(const Result<Answer>& answer, const Lease& lease,
                                      Duration ttl) {
  if (!answer) return fail(answer.error());
  const std::string_view verdict = answer->reply.text_at(0);
  if (verdict == "lost")
    return Lost{"the server does not have it any more: it expired, or was removed or replaced"};
  auto token = parse_number<std::uint64_t>(answer->reply.text_at(1));
  if (token == 0U && lease.token != 0) token = lease.token;  // only the lock itself could be read
  if (verdict != "kept" || !token) return fail(not_understood("renew"));
  if (*token == 0)
    return fail(
        Errc::unavailable,
        fmt::format("renew at {}: its slot is being moved, and the token with it", where()));
  if (const unsigned wanted = client_->options().replicas; answer->copies < wanted)
    return fail(Errc::unavailable, fmt::format("renew at {}: only {} of {} replicas confirmed it",
                                               where(), answer->copies, wanted));
  Lease kept{lease.key, lease.owner};
  kept.token = *token;
  kept.deadline = lease_end(answer->sent, ttl);
  client_->gave();
  return Kept{std::move(kept)};
}

Result<Try> NamedBackend::tried(const Request& request, const Answer& answer, Deadline sent) {
  if (answer.grace_left > Duration{}) return in_grace(answer);
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "granted") return granted(request, answer, sent);
  if (verdict == "held") return taken_before(request);
  const bool has_look = verdict == "busy" && answer.reply.items.size() == 2;
  const auto seen = has_look ? parse_look(answer.reply.items[1]) : std::nullopt;
  if (!seen) return fail(not_understood("acquire"));
  return busy(*seen);
}

Result<Try> NamedBackend::granted(const Request& request, const Answer& answer, Deadline sent) {
  const auto token = parse_number<std::uint64_t>(answer.reply.text_at(1));
  if (!token) return fail(not_understood("acquire"));
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

bool NamedBackend::give_back(const Lease& lease) {
  const auto answer = release(lease, std::nullopt);
  return answer || !retryable(answer.error().code) || Clock::now() >= lease.deadline;
}

Result<Try> NamedBackend::taken_before(const Request& request) {
  TRY(renewal, renew({request.key, request.owner}, request.ttl));
  if (auto* kept = std::get_if<Kept>(&renewal)) return Try{.lease = std::move(kept->lease)};
  return Try{.free_in = Duration{}};  // it ended just now
}

Result<Released> NamedBackend::release(const Lease& lease, std::optional<RunEnd>) {
  const auto answer = call("release", scripts::named_release, named(lease.key),
                           release_words(lease.owner), 0, sign(lease.owner).empty() ? 0 : 1);
  if (!answer) {
    if (answer.error().code == Errc::timed_out) unanswered_.add(lease);
    return fail(answer.error());
  }
  if (!answer->reply.is(Reply::Type::integer)) return fail(not_understood("release"));
  return unanswered_.answered(lease, answer->reply.integer == 1, answer->repeated);
}

Result<Released> NamedBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string wanted = token ? fmt::format_int(*token).str() : "";
  TRY(answer, call("force a release", scripts::named_force_release, named(key), {wanted}));
  if (answer.reply.integer == 1 || answer.repeated) return Released::yes;
  return client_->none_found("force a release", answer);
}

Result<Look> NamedBackend::look(const NamedKey& key) {
  TRY(answer, call("look", scripts::named_look, key, {}));
  auto seen = parse_look(answer.reply);
  if (!seen) return fail(not_understood("look"));
  seen->unread = client_->unread(answer);
  return std::move(*seen);
}

std::optional<Look> NamedBackend::parse_look(const Reply& r) {
  const auto now = r.number_at(0), pttl = r.number_at(3);
  if (!now || !pttl || r.text_at(1).empty()) return std::nullopt;
  Look seen{.now = *now, .type = std::string{r.text_at(1)}, .value = std::string{r.text_at(2)}};
  if (*pttl >= 0) seen.left = std::chrono::milliseconds{*pttl};
  if (const auto token = parse_number<std::uint64_t>(r.text_at(4)))
    seen.record = {*token, std::string{r.text_at(5)}, std::string{r.text_at(6)},
                   r.number_at(7).value_or(0), Identity::decode(r.text_at(8))};
  return seen;
}

Try NamedBackend::busy(const Look& seen) const {
  Try t;
  t.free_in = left(seen);
  HolderView h;
  h.remaining = t.free_in;
  if (seen.ours()) {
    h.id = seen.record->owner.substr(0, 8);
    h.token = seen.record->token;
    h.held = Duration{std::max<Micros>(0, seen.now - seen.record->since)};
    h.who = seen.record->who;
  } else if (seen.type == "string" && seen.value.size() >= 16) {
    h.id = seen.value.substr(0, 8);
  }
  t.holder = std::move(h);
  for (const auto& note : notes(seen)) t.why += (t.why.empty() ? "" : "; ") + note;
  return t;
}

Try NamedBackend::in_grace(const Answer& answer) const {
  return Try{.free_in = answer.grace_left,
             .why = grace_note(client_->options().restart_grace, answer.grace_left),
             .no_grants = true};
}

// Remarks about a lock that dlock did not take.
std::vector<std::string> NamedBackend::notes(const Look& seen) const {
  std::vector<std::string> out;
  if (!seen.held()) return out;
  if (!seen.ours()) {
    const std::string_view guess = seen.type == "hash" ? ", as Redisson's locks are" : "";
    out.push_back(fmt::format("held by another program: type {}{}, {}", seen.type, guess,
                              seen.left ? "ends in " + format_duration(*seen.left) : "no expiry"));
  } else if (!left(seen)) {
    out.push_back("it has no expiry: its holder may have died before it could set one");
  }
  return out;
}

Result<Validity> NamedBackend::check(const Key& key, const GrantId& id) {
  TRY(seen, look(named(key)));
  if (!seen.ours() || left(seen) == Duration{}) return Validity::stale;
  const auto* owner = std::get_if<Owner>(&id);
  const bool same =
      owner ? seen.record->owner == owner->hex() : seen.record->token == std::get<FencingToken>(id);
  return same ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> NamedBackend::inspect(const Key& key) {
  return inspect(named(key), &key);
}

Result<std::optional<KeyView>> NamedBackend::inspect(const NamedKey& key, const Key* asked) {
  TRY(seen, look(key));
  if (!seen.held() && !seen.record && (!asked || seen.unread.empty()))
    return std::optional<KeyView>{};
  KeyView v;
  v.unread = seen.unread;
  v.key = key.lock.substr(client_->options().prefix.size());
  v.waiters_known = false;
  if (seen.record) v.fence = seen.record->token;
  if (seen.held() && left(seen) != Duration{}) v.holders.push_back(*busy(seen).holder);
  v.notes = notes(seen);
  return std::optional{std::move(v)};
}

Result<std::vector<std::string>> NamedBackend::names() {
  const std::string& prefix = client_->options().prefix;
  std::vector<std::string> all;
  const auto add = [&](std::string_view found) {
    const std::string lock = NamedKey::lock_of(found).value_or(std::string{found});
    if (lock.starts_with(prefix)) all.push_back(lock.substr(prefix.size()));
  };
  TRY_VOID(client_->scan_all({glob_escape(prefix) + "*", NamedKey::fences_below(prefix)}, add));
  return all;
}

Result<std::optional<KeyView>> NamedBackend::inspect_name(const std::string& name) {
  return inspect(NamedKey{client_->options().prefix + name}, nullptr);
}

Result<std::vector<Finding>> NamedBackend::doctor() { return examine_all(*client_, traits_); }

}  // namespace dlock::redis
