// SPDX-License-Identifier: Apache-2.0
#include "redis/named_recipe.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "redis/doctor.hpp"
#include "redis/named_waiter.hpp"
#include "redis/record.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

Error NamedBackend::not_understood(std::string_view what) const {
  return {Errc::protocol, fmt::format("{} at {}: the answer makes no sense", what, where())};
}

Result<Answer> NamedBackend::call(std::string_view what, const Script& script, const NamedKey& key, std::vector<std::string> args,
                                  unsigned copies) {
  return client_->call({what, &script, {key.lock, key.fence}, std::move(args)}, copies);
}

Result<std::unique_ptr<Waiter>> NamedBackend::enqueue(const Request& request) {
  const auto refuse = [&](std::string_view what) {
    return fail(Errc::usage, fmt::format("redis, recipe {}: {}", traits_.recipe, what));
  };
  if (request.mode == Mode::shared) return refuse("no --shared: the programs it excludes with know one holder only");
  if (request.mode == Mode::permit) return refuse("no --limit: the programs it excludes with know one holder only");
  if (request.lock_delay > Duration{}) return refuse("no --lock-delay: the server deletes what nobody renews");
  if (request.ttl <= Duration{}) return refuse("a lease needs a --ttl above 0");
  if (client_->options().topology == Options::Topology::cluster && !named(request.key).same_slot)
    return refuse("in a cluster, no '}' before the first '{' in --key: the fence could not be on the same server");
  return std::make_unique<NamedWaiter>(*this, request);
}

Result<Renewal> NamedBackend::renew(const Lease& lease, Duration ttl) {
  return renewed(call("renew", scripts::named_renew, named(lease.key), {lease.owner.hex(), sign(lease.owner), millis(ttl)},
                      client_->options().replicas),
                 lease, ttl);
}

Result<Renewal> NamedBackend::renewed(const Result<Answer>& answer, const Lease& lease, Duration ttl) {
  if (!answer) return fail(answer.error());
  const std::string_view verdict = answer->reply.text_at(0);
  if (verdict == "lost")
    return Lost{"the server does not have it any more: its time was over, or somebody removed or replaced it"};
  const auto token = parse_unsigned(answer->reply.text_at(1));
  if (verdict != "kept" || !token) return fail(not_understood("renew"));
  if (const unsigned wanted = client_->options().replicas; answer->copies < wanted)
    return fail(Errc::unavailable,
                fmt::format("renew at {}: only {} of {} replicas confirmed it", where(), answer->copies, wanted));
  Lease kept{lease.key, lease.owner};
  kept.token = *token;
  kept.deadline = lease_end(answer->sent, ttl);
  return Kept{std::move(kept)};
}

Result<Try> NamedBackend::granted(const Request& request, const Answer& answer, Deadline sent) {
  const auto token = parse_unsigned(answer.reply.text_at(1));
  if (!token) return fail(not_understood("acquire"));
  Lease lease{request.key, request.owner};
  lease.token = *token;
  lease.deadline = lease_end(sent, request.ttl);
  if (const unsigned wanted = client_->options().replicas; answer.copies < wanted) {
    (void)release(lease);  // unanswered: it ends by its ttl
    return fail(Errc::unavailable, fmt::format("acquire at {}: only {} of {} replicas confirmed the grant; it was given back",
                                               where(), answer.copies, wanted));
  }
  return Try{.lease = std::move(lease)};
}

Result<Try> NamedBackend::taken_before(const Request& request) {
  auto renewal = renew({request.key, request.owner}, request.ttl);
  if (!renewal) return fail(std::move(renewal.error()));
  if (auto* kept = std::get_if<Kept>(&*renewal)) return Try{.lease = std::move(kept->lease)};
  return Try{.free_in = Duration{}};  // it ended just now
}

Result<Released> NamedBackend::release(const Lease& lease) {
  const auto answer = call("release", scripts::named_release, named(lease.key), release_words(lease.owner));
  const bool asked_before = release_unanswered_ == lease.owner;
  if (!answer) {
    if (answer.error().code == Errc::timed_out) release_unanswered_ = lease.owner;
    return fail(answer.error());
  }
  if (!answer->reply.is(Reply::Type::integer)) return fail(not_understood("release"));
  // Not there, though its time was not over: an earlier request of ours, whose answer got lost, has removed it.
  const bool by_us = (answer->repeated || asked_before) && Clock::now() < lease.deadline;
  return answer->reply.integer == 1 || by_us ? Released::yes : Released::was_not_held;
}

Result<Released> NamedBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string wanted = token ? fmt::format_int(*token).str() : "";
  const auto answer = call("force a release", scripts::named_force_release, named(key), {wanted});
  if (!answer) return fail(answer.error());
  return answer->reply.integer == 1 || answer->repeated ? Released::yes : Released::was_not_held;
}

Result<Look> NamedBackend::look(const NamedKey& key) {
  const auto answer = call("look", scripts::named_look, key, {});
  if (!answer) return fail(answer.error());
  auto seen = parse_look(answer->reply);
  if (!seen) return fail(not_understood("look"));
  return std::move(*seen);
}

std::optional<Look> NamedBackend::parse_look(const Reply& r) {
  const auto now = r.number_at(0), pttl = r.number_at(3);
  if (!now || !pttl || r.text_at(1).empty()) return std::nullopt;
  Look seen{.now = *now, .type = std::string{r.text_at(1)}, .value = std::string{r.text_at(2)}};
  if (*pttl >= 0) seen.left = std::chrono::milliseconds{*pttl};
  if (const auto token = parse_unsigned(r.text_at(4)))
    seen.record = {*token, std::string{r.text_at(5)}, std::string{r.text_at(6)}, r.number_at(7).value_or(0),
                   Identity::decode(r.text_at(8))};
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
  return Try{.free_in = answer.grace_left, .why = grace_note(client_->options().restart_grace, answer.grace_left)};
}

// What a person should know about a lock that no dlock took.
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

Result<Validity> NamedBackend::check(const Key& key, FencingToken token) {
  const auto seen = look(named(key));
  if (!seen) return fail(seen.error());
  return seen->ours() && seen->record->token == token && left(*seen) != Duration{} ? Validity::valid : Validity::stale;
}

Result<Validity> NamedBackend::check(const Key& key, const Owner& owner) {
  const auto seen = look(named(key));
  if (!seen) return fail(seen.error());
  return seen->ours() && seen->record->owner == owner.hex() && left(*seen) != Duration{} ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> NamedBackend::inspect(const Key& key) { return inspect(named(key)); }

Result<std::optional<KeyView>> NamedBackend::inspect(const NamedKey& key) {
  const auto seen = look(key);
  if (!seen) return fail(seen.error());
  if (!seen->held() && !seen->record) return std::optional<KeyView>{};
  KeyView v;
  v.key = key.lock.substr(client_->options().prefix.size());
  v.waiters_known = false;
  if (seen->record) v.fence = seen->record->token;
  if (seen->held() && left(*seen) != Duration{}) v.holders.push_back(*busy(*seen).holder);
  v.notes = notes(*seen);
  return std::optional{std::move(v)};
}

Result<void> NamedBackend::names_at(const Endpoint& at, const std::string& pattern, std::vector<std::string>& names) {
  return client_->scan(at, pattern, [&](std::string_view found) {
    if (const auto lock = NamedKey::lock_of(found)) names.push_back(*lock);
    else names.emplace_back(found);
  });
}

Result<std::vector<KeyView>> NamedBackend::list() {
  const std::string& prefix = client_->options().prefix;
  if (prefix.empty()) return fail(Errc::usage, "without a prefix only a named key can be inspected: give a KEY");
  const auto servers = client_->locator().everyone({client_->usual_deadline()});
  if (!servers) return fail(servers.error());
  std::vector<std::string> names;
  for (const Endpoint& at : *servers)
    for (const auto& pattern : {glob_escape(prefix) + "*", NamedKey::fences_below(prefix)})
      if (auto ok = names_at(at, pattern, names); !ok) return fail(std::move(ok.error()));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<KeyView> views;
  for (std::string& name : names) {
    if (!name.starts_with(prefix)) continue;
    auto v = inspect(NamedKey{std::move(name)});
    if (!v) return fail(std::move(v.error()));
    if (*v) views.push_back(std::move(**v));
  }
  return views;
}

Result<std::vector<Finding>> NamedBackend::doctor() { return examine_all(*client_, traits_); }

}  // namespace dlock::redis
