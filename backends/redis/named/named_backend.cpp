// SPDX-License-Identifier: Apache-2.0
#include "redis/named/named_backend.hpp"
#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {
namespace {

using Value = NamedBackend::Value;

constexpr std::string_view fence_prefix = "dlock:fence:{";

Value value_of(std::string_view recipe) noexcept {
  if (recipe == "set") return Value::owner;
  return recipe == "getset" ? Value::time : Value::marked;
}

}  // namespace

NamedKey::NamedKey(std::string lock_name) : lock(std::move(lock_name)) {
  const std::string_view tag = hashed_part(lock);
  same_slot = tag.find('}') == tag.npos;
  fence = fmt::format("{}{}}}{}", fence_prefix, same_slot ? tag : "", lock);
}

std::optional<std::string> NamedKey::lock_of(std::string_view fence) {
  const std::size_t end = fence.find('}');
  if (!fence.starts_with(fence_prefix) || end == fence.npos) return std::nullopt;
  return std::string{fence.substr(end + 1)};
}

std::string NamedKey::fences_below(std::string_view prefix) {
  return fmt::format("{}*}}{}*", fence_prefix, glob_escape(prefix));
}

NamedBackend::NamedBackend(const Traits& traits, std::unique_ptr<Client> client)
    : RedisBackend(traits, std::move(client)), value_(value_of(traits.recipe)) {}

// ---- what the value of a lock says --------------------------------------------------------------

std::string NamedBackend::sign(const Owner& owner) const {
  if (value_ == Value::time) return "";
  return value_ == Value::owner ? owner.hex() : std::string{value_mark} + owner.hex() + ":";
}

std::string NamedBackend::unit() const { return fmt::format_int(options().unit).str(); }

std::string NamedBackend::time_in(Duration ttl) const {
  const Micros unit = options().unit;
  return fmt::format_int((wall_micros() + ttl.count() + unit - 1) / unit + 1).str();
}

// Accepts decimal fractions, because other programs write them.
std::optional<Micros> NamedBackend::time_of(std::string_view value) const {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc{} || end != value.data() + value.size() ||
      !std::isfinite(number))
    return std::nullopt;
  const double at = number * static_cast<double>(options().unit);
  return at < 0 || at > 9e15 ? std::nullopt : std::optional{static_cast<Micros>(at)};
}

std::optional<Duration> NamedBackend::left(const NamedState& state) const {
  const auto ends = value_ == Value::time ? time_of(state.value) : std::nullopt;
  return ends ? std::optional{Duration{std::max<Micros>(0, *ends - state.now)}} : state.left;
}

// ---- operations --------------------------------------------------------------------------------

Result<TimedReply> NamedBackend::call(std::string_view what, const Script& script,
                                      const NamedKey& key, std::vector<std::string> args,
                                      std::size_t enough) {
  return client_->call({.what = what,
                        .script = &script,
                        .keys = {key.lock, key.fence},
                        .args = std::move(args),
                        .enough = enough,
                        .confirmed = what == "renew"});
}

Result<Renewal> NamedBackend::renew(const Lease& lease, Duration ttl) {
  // a lease that is renewed with this ttl could last longer than the grace period
  if (!has_granted) TRY_VOID(within_grace({ttl}, options().restart_grace));
  const std::string owner = lease.owner.hex();
  TRY(answer, value_ == Value::time ? call("renew", scripts::named_getset_renew, named(lease.key),
                                           {owner, time_in(ttl), unit()}, 0)
                                    : call("renew", scripts::named_renew, named(lease.key),
                                           {owner, sign(lease.owner), millis(ttl)}, 1));
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "lost")
    return Lost{"the server does not have it any more: it expired, or was removed or replaced"};
  auto token = parse_number<std::uint64_t>(answer.reply.text_at(1));
  // Token 0: the slot is being moved, and the script could use only the lock's key, not the key
  // with the token.
  if (token == 0U && lease.token != 0) token = lease.token;
  if (verdict != "kept" || !token) return fail(malformed_reply("renew", where()));
  if (*token == 0)
    return fail(Errc::unavailable, "renew at {}: its slot is being moved, and the token with it",
                where());
  TRY_VOID(confirmed("renew", answer, Errc::unavailable));
  Lease kept{lease.key, lease.owner};
  kept.token = *token;
  kept.deadline = lease_end(answer.sent, ttl);
  has_granted = true;
  return Kept{std::move(kept)};
}

Result<Released> NamedBackend::release(const Lease& lease, std::optional<RunEnd>) {
  const bool time = value_ == Value::time;
  std::vector<std::string> args{lease.owner.hex(), sign(lease.owner)};
  if (time) args.push_back(unit());
  return released(lease, call("release", scripts::named_release, named(lease.key), std::move(args),
                              time ? 0 : 1));
}

Result<Released> NamedBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string wanted = token ? fmt::format_int(*token).str() : "";
  TRY(answer, call("force a release", scripts::named_force_release, named(key), {wanted}, 0));
  return force_released(answer);
}

Result<NamedState> NamedBackend::read_state(const NamedKey& key) {
  TRY(answer, call("look", scripts::named_inspect, key, {}, 0));
  auto state = NamedState::parse(answer.reply);
  if (!state) return fail(malformed_reply("look", where()));
  state->unknown_reason = client_->unread(answer);
  return std::move(*state);
}

std::optional<NamedState> NamedState::parse(const Reply& r) {
  const auto now = r.number_at(0), pttl = r.number_at(3);
  if (!now || !pttl || r.text_at(1).empty()) return std::nullopt;
  NamedState state{
      .now = *now, .type = std::string{r.text_at(1)}, .value = std::string{r.text_at(2)}};
  if (*pttl >= 0) state.left = std::chrono::milliseconds{*pttl};
  if (const auto token = parse_number<std::uint64_t>(r.text_at(4)))
    state.record = {*token, std::string{r.text_at(5)}, std::string{r.text_at(6)},
                    r.number_at(7).value_or(0), Identity::decode(r.text_at(8))};
  return state;
}

HolderView NamedBackend::holder(const NamedState& state) const {
  HolderView h;
  h.remaining = left(state);
  if (state.ours()) {
    h.id = state.record->owner.substr(0, 8);
    h.token = state.record->token;
    h.granted_at = time_of_grant(state.record->since, state.now);
    h.who = state.record->who;
  } else if (state.type == "string" && state.value.size() >= 16) {
    h.id = state.value.substr(0, 8);
  }
  return h;
}

// Returns notes about a lock that another program holds.
std::vector<std::string> NamedBackend::notes(const NamedState& state) const {
  std::vector<std::string> out;
  if (!state.held()) return out;
  if (!state.ours()) {
    const std::string_view guess = state.type == "hash" ? ", as Redisson's locks are" : "";
    out.push_back(
        fmt::format("held by another program: type {}{}, {}", state.type, guess,
                    state.left ? "ends in " + format_duration(*state.left) : "no expiry"));
  } else if (!left(state)) {
    out.push_back("it has no expiry: its holder may have died before it could set one");
  }
  return out;
}

Result<Validity> NamedBackend::check(const Key& key, const GrantId& id) {
  TRY(state, read_state(named(key)));
  if (!state.ours() || left(state) == Duration{}) return Validity::stale;
  const auto* owner = std::get_if<Owner>(&id);
  const bool same = owner ? state.record->owner == owner->hex()
                          : state.record->token == std::get<FencingToken>(id);
  return same ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> NamedBackend::inspect(const NamedKey& key, const Key* wanted) {
  TRY(state, read_state(key));
  if (!state.held() && !state.record && (!wanted || state.unknown_reason.empty()))
    return std::optional<KeyView>{};
  KeyView v;
  v.unknown_reason = state.unknown_reason;
  v.key = key.lock.substr(options().prefix.size());
  v.waiters_known = false;
  if (state.record) v.fence = state.record->token;
  if (state.held() && left(state) != Duration{}) v.holders.push_back(holder(state));
  v.notes = notes(state);
  return std::optional{std::move(v)};
}

Result<std::vector<std::string>> NamedBackend::names() {
  const std::string& prefix = options().prefix;
  std::vector<std::string> all;
  const auto add = [&](std::string_view found) {
    const std::string lock = NamedKey::lock_of(found).value_or(std::string{found});
    if (lock.starts_with(prefix)) all.push_back(lock.substr(prefix.size()));
  };
  TRY_VOID(client_->scan_all({glob_escape(prefix) + "*", NamedKey::fences_below(prefix)}, add));
  return all;
}

}  // namespace dlock::redis
