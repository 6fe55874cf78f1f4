// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "common/record_reader.hpp"
#include "core/number.hpp"
#include "redis/doctor.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/fair/fair_waiter.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::redis {
namespace {

// A reply that the script cannot give.
tl::unexpected<Error> not_understood(const Client& client, std::string_view what) {
  return fail(Errc::protocol,
              fmt::format("{} at {}: malformed reply", what, client.options().where));
}

// With the owner, the token: a late message finds only the grant it was meant for. Unknown (a
// handle): ''.
std::string token_of(const Lease& lease) {
  return lease.token == 0 ? "" : fmt::format_int(lease.token).str();
}

}  // namespace

Result<std::unique_ptr<Waiter>> FairBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits(), request));
  const LeaseSpan span{request.ttl, request.lock_delay};
  TRY_VOID(within_grace(span, client_->options().restart_grace));
  return std::make_unique<FairWaiter>(*this, *client_, request);
}

Result<Renewal> FairBackend::extend(const Lease& lease, Duration ttl, std::string ended) {
  const unsigned replicas = client_->options().replicas;
  const FairKeys keys{client_->options().prefix, lease.key};
  // Of a lease that was taken elsewhere only its record tells the lock-delay.
  const Duration grace = client_->options().restart_grace;
  const bool any = client_->gave_any() || grace == Duration{};
  TRY(answer, client_->call({.what = "renew",
                             .script = &scripts::renew,
                             .keys = {keys.lock()},
                             .words = {lease.owner.hex(), token_of(lease), micros(ttl),
                                       any ? "" : micros(grace), ended}},
                            replicas));
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "longer")
    TRY_VOID(within_grace({ttl, Duration{answer.reply.number_at(2).value_or(0)}}, grace));
  if (verdict == "lost")
    return Lost{"the server does not have it any more: it expired, or was removed"};
  const auto token = parse_number<std::uint64_t>(answer.reply.text_at(2));
  const auto mode = parse_mode(answer.reply.text_at(3));
  const auto slot = answer.reply.number_at(4);
  if (verdict != "kept" || !token || !mode || !slot) return not_understood(*client_, "renew");
  if (answer.copies < replicas)
    return fail(Errc::unavailable, fmt::format("renew at {}: only {} of {} replicas confirmed it",
                                               where(), answer.copies, replicas));
  client_->gave();
  return Kept{{lease.key, lease.owner, *mode, *token, static_cast<unsigned>(*slot),
               lease_end(answer.sent, ttl)},
              answer.reply.number_at(5) == 1};
}

Result<Released> FairBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  const FairKeys keys{client_->options().prefix, lease.key};
  const auto answer = client_->call(
      {.what = "release",
       .script = &scripts::release,
       .keys = keys.all(),
       .words = {lease.owner.hex(), token_of(lease), micros(claim), end ? end->text() : ""},
       .enough = 1});
  if (!answer) {
    if (answer.error().code == Errc::timed_out) unanswered_.add(lease);
    return fail(answer.error());
  }
  const auto removed = answer->reply.number_at(0);
  if (!removed) return not_understood(*client_, "release");
  return unanswered_.answered(lease, *removed == 1, answer->repeated);
}

Result<Released> FairBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const FairKeys keys{client_->options().prefix, key};
  const std::string wanted = token ? fmt::format_int(*token).str() : "";
  TRY(answer, client_->call({.what = "force a release",
                             .script = &scripts::force_release,
                             .keys = keys.all(),
                             .words = {wanted, micros(claim)},
                             .enough = 1}));
  const auto removed = answer.reply.number_at(0);
  if (!removed) return not_understood(*client_, "force a release");
  if (*removed > 0 || answer.repeated) return Released::yes;
  return client_->none_found("force a release", answer);
}

// Two exchanges: the request names the newest token that was seen, so that it can ask only those
// holders (revoke.lua).
Result<Released> FairBackend::revoke(const Key& key) {
  TRY(seen, inspect(key));
  FencingToken newest = 0;
  for (const HolderView& h : seen ? seen->holders : std::vector<HolderView>{})
    if (!h.vanished) newest = std::max(newest, h.token);
  if (newest == 0 && seen && !seen->unread.empty())
    return fail(
        Errc::unavailable,
        fmt::format("ask the holder to stop at {}: no holder is found; {}", where(), seen->unread));
  if (newest == 0) return Released::was_not_held;
  const FairKeys keys{client_->options().prefix, key};
  TRY(answer, client_->call({"ask the holder to stop",
                             &scripts::revoke,
                             {keys.lock()},
                             {fmt::format_int(newest).str(), Identity::mine("").encode()}}));
  const auto asked = answer.reply.number_at(0);
  if (!asked) return not_understood(*client_, "ask the holder to stop");
  return *asked > 0 ? Released::yes : client_->none_found("ask the holder to stop", answer);
}

Result<Validity> FairBackend::check(const Key& key, const GrantId& id) {
  const FairKeys keys{client_->options().prefix, key};
  const auto* owner = std::get_if<Owner>(&id);
  std::vector<std::string> words{owner ? owner->hex() : "",
                                 owner ? "" : fmt::format_int(std::get<FencingToken>(id)).str()};
  TRY(answer, client_->call({"check", &scripts::check, {keys.lock()}, std::move(words)}));
  if (!answer.reply.is(Reply::Type::integer)) return not_understood(*client_, "check");
  return answer.reply.integer == 1 ? Validity::valid : Validity::stale;
}

Result<Starts> FairBackend::starts(const Key& key) {
  const FairKeys keys{client_->options().prefix, key};
  const auto answer =
      client_->call({"ask for the last start", &scripts::starts, {keys.lock()}, {}});
  if (!answer) return fail(answer.error());
  const auto now = answer->reply.number_at(0), at = answer->reply.number_at(1),
             until = answer->reply.number_at(2);
  const bool none = answer->reply.text_at(1).empty();
  if (!now || (!none && (!at || !until))) return not_understood(*client_, "ask for the last start");
  return none ? Starts{*now, {}} : Starts{*now, Start{*at, *until}};
}

// A note that a failover loses lets a job start twice in a period: so as many replicas confirm it
// as a grant.
Result<Noted> FairBackend::note_start(const Lease& lease, const StartChange& change) {
  const unsigned replicas = client_->options().replicas;
  const FairKeys keys{client_->options().prefix, lease.key};
  const auto text = [](const std::optional<Start>& s) {
    return s ? fmt::format("{}|{}", s->at, s->until) : "";
  };
  const auto answer =
      client_->call({"note the start",
                     &scripts::note_start,
                     {keys.lock()},
                     {lease.owner.hex(), token_of(lease), text(change.was), text(change.is)}},
                    replicas);
  if (!answer) return fail(answer.error());
  const auto noted = answer->reply.number_at(0);
  if (!noted) return not_understood(*client_, "note the start");
  if (answer->copies < replicas)
    return fail(Errc::timed_out,
                fmt::format("note the start at {}: only {} of {} replicas confirmed it", where(),
                            answer->copies, replicas));
  if (*noted == 0) return Noted::not_held;
  return *noted == 1 ? Noted::yes : Noted::other_start;
}

Result<std::optional<KeyView>> FairBackend::inspect(const Key& key) {
  return inspect(FairKeys{client_->options().prefix, key}, &key);
}

Result<std::optional<KeyView>> FairBackend::inspect(const FairKeys& keys, const Key* asked) {
  TRY(answer, client_->call({.what = "inspect",
                             .script = &scripts::inspect,
                             .keys = keys.all(),
                             .words = {fmt::format_int(most_shown).str()},
                             .enough = 1}));
  auto view = view_of(keys, answer.reply);
  if (!view) return view;
  std::string unread = client_->unread(answer);
  if (!*view && asked && !unread.empty()) view->emplace().key = asked->text();
  if (*view) (*view)->unread = std::move(unread);
  return view;
}

Result<std::vector<std::string>> FairBackend::names() {
  const std::string& prefix = client_->options().prefix;
  std::vector<std::string> all;
  TRY_VOID(client_->scan_all({FairKeys::pattern(prefix)}, [&](std::string_view found) {
    if (auto name = FairKeys::name_in(found, prefix)) all.push_back(std::move(*name));
  }));
  return all;
}

Result<std::optional<KeyView>> FairBackend::inspect_name(const std::string& name) {
  return inspect(FairKeys{client_->options().prefix, name}, nullptr);
}

Result<std::vector<Finding>> FairBackend::doctor() { return examine_all(*client_, traits_); }

}  // namespace dlock::redis
