// SPDX-License-Identifier: Apache-2.0
#include "redis/named/named_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include "common/exchange.hpp"
#include "common/polling_waiter.hpp"
#include "core/duration.hpp"
#include "core/number.hpp"
#include "redis/doctor.hpp"
#include "redis/wire/locator.hpp"
#include "redis_scripts/named_scripts.hpp"

namespace dlock::redis {

namespace {

using Value = NamedRecipe::Value;

constexpr std::string_view fence_prefix = "dlock:fence:{";

constexpr std::array recipes{
    NamedRecipe{"set", &NamedBackend::take_by_set, Value::owner},
    NamedRecipe{"setnx-expire", &NamedBackend::take_by_setnx, Value::marked},
    NamedRecipe{"getset", &NamedBackend::take_by_getset, Value::time},
};

const NamedRecipe& recipe_of(std::string_view name) noexcept {
  return *std::find_if(recipes.begin(), recipes.end() - 1,
                       [&](const NamedRecipe& r) { return r.name == name; });
}

class NamedWaiter final : public PollingWaiter {
 public:
  NamedWaiter(NamedBackend& backend, const Request& request)
      : PollingWaiter(request, backend.client().options().interrupt_fd), backend_(backend) {}
  Result<void> cancel() override;

 private:
  Result<Tried> try_once() override;

  NamedBackend& backend_;
  std::optional<Lease> owed_;  // released, without an answer
};

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
    : traits_(traits), client_(std::move(client)), recipe_(recipe_of(traits.recipe)) {}

// ---- what its value says -----------------------------------------------------------------------

std::string NamedBackend::sign(const Owner& owner) const {
  if (recipe_.value == Value::time) return "";
  return recipe_.value == Value::owner ? owner.hex() : std::string{value_mark} + owner.hex() + ":";
}

std::string NamedBackend::unit() const { return fmt::format_int(client_->options().unit).str(); }

std::string NamedBackend::time_in(Duration ttl) const {
  const Micros unit = client_->options().unit;
  return fmt::format_int((wall_micros() + ttl.count() + unit - 1) / unit + 1).str();
}

// Other programs write decimals, too.
std::optional<Micros> NamedBackend::time_of(std::string_view value) const {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc{} || end != value.data() + value.size() ||
      !std::isfinite(number))
    return std::nullopt;
  const double at = number * static_cast<double>(client_->options().unit);
  return at < 0 || at > 9e15 ? std::nullopt : std::optional{static_cast<Micros>(at)};
}

std::optional<Duration> NamedBackend::left(const Look& look) const {
  const auto ends = recipe_.value == Value::time ? time_of(look.value) : std::nullopt;
  return ends ? std::optional{Duration{std::max<Micros>(0, *ends - look.now)}} : look.left;
}

// ---- operations --------------------------------------------------------------------------------

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
  // renewed for so long it could outlast the grace
  if (!client_->gave_any()) TRY_VOID(within_grace({ttl}, client_->options().restart_grace));
  const bool time = recipe_.value == Value::time;
  const unsigned wanted = client_->options().replicas;
  const std::string owner = lease.owner.hex();
  TRY(answer, time ? call("renew", scripts::named_getset_renew, named(lease.key),
                          {owner, time_in(ttl), unit()}, wanted, 0)
                   : call("renew", scripts::named_renew, named(lease.key),
                          {owner, sign(lease.owner), millis(ttl)}, wanted, 1));
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "lost")
    return Lost{"the server does not have it any more: it expired, or was removed or replaced"};
  auto token = parse_number<std::uint64_t>(answer.reply.text_at(1));
  if (token == 0U && lease.token != 0) token = lease.token;  // only the lock itself could be read
  if (verdict != "kept" || !token) return fail(malformed_reply("renew", where()));
  if (*token == 0)
    return fail(
        Errc::unavailable,
        fmt::format("renew at {}: its slot is being moved, and the token with it", where()));
  if (answer.copies < wanted)
    return fail(Errc::unavailable, fmt::format("renew at {}: only {} of {} replicas confirmed it",
                                               where(), answer.copies, wanted));
  Lease kept{lease.key, lease.owner};
  kept.token = *token;
  kept.deadline = lease_end(answer.sent, ttl);
  client_->gave();
  return Kept{std::move(kept)};
}

bool NamedBackend::give_back(const Lease& lease) {
  const auto answer = release(lease, std::nullopt);
  return answer || !retryable(answer.error().code) || Clock::now() >= lease.deadline;
}

Result<Released> NamedBackend::release(const Lease& lease, std::optional<RunEnd>) {
  const bool time = recipe_.value == Value::time;
  std::vector<std::string> args{lease.owner.hex(), sign(lease.owner)};
  if (time) args.push_back(unit());
  const auto answer =
      call("release", scripts::named_release, named(lease.key), std::move(args), 0, time ? 0 : 1);
  if (!answer) {
    if (answer.error().code == Errc::timed_out) unanswered_.add(lease);
    return fail(answer.error());
  }
  if (!answer->reply.is(Reply::Type::integer)) return fail(malformed_reply("release", where()));
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
  auto seen = Look::parse(answer.reply);
  if (!seen) return fail(malformed_reply("look", where()));
  seen->unread = client_->unread(answer);
  return std::move(*seen);
}

std::optional<Look> Look::parse(const Reply& r) {
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

Result<void> NamedBackend::erase(const Key& key) {
  const NamedKey at = named(key);
  Command remove{"remove"};
  remove.keys = {at.lock};
  remove.words = {"DEL", at.lock, at.fence};
  TRY_VOID(client_->call(remove));
  return {};
}

Result<std::vector<Finding>> NamedBackend::doctor() { return examine_all(*client_, traits_); }

}  // namespace dlock::redis
