// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_backend.hpp"
#include <fmt/format.h>
#include "core/number.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::redis {
namespace {

// Returns the token of the lease, or '' if it is unknown (from a handle). Requests contain it
// together with the owner, so that a late request finds only its own grant.
std::string token_of(const Lease& lease) {
  return lease.token == 0 ? "" : fmt::format_int(lease.token).str();
}

}  // namespace

Result<TimedReply> FairBackend::call(std::string_view what, const Script& script, const Key& key,
                                     std::vector<std::string> args, bool confirmed) {
  return client_->call({.what = what,
                        .script = &script,
                        .keys = {keys_of(key).lock()},
                        .args = std::move(args),
                        .confirmed = confirmed});
}

Result<TimedReply> FairBackend::call_with_queue(std::string_view what, const Script& script,
                                                const FairKeys& keys,
                                                std::vector<std::string> args) {
  return client_->call(
      {.what = what, .script = &script, .keys = keys.all(), .args = std::move(args), .enough = 1});
}

Result<Renewal> FairBackend::extend(const Lease& lease, Duration ttl, std::string ended) {
  // If another process acquired the lease, only the record shows its lock-delay. So the script
  // compares ttl and lock-delay with the grace period.
  const Duration grace = options().restart_grace;
  const bool any = has_granted || grace == Duration{};
  TRY(answer, call("renew", scripts::renew, lease.key,
                   {lease.owner.hex(), token_of(lease), micros(ttl), any ? "" : micros(grace),
                    std::move(ended), lease.ended},
                   true));
  const std::string_view verdict = answer.reply.text_at(0);
  if (verdict == "longer")
    TRY_VOID(within_grace({ttl, Duration{answer.reply.number_at(2).value_or(0)}}, grace));
  if (verdict == "lost")
    return Lost{"the server does not have it any more: it expired, or was removed"};
  const auto token = parse_number<std::uint64_t>(answer.reply.text_at(2));
  const auto mode = parse_mode(answer.reply.text_at(3));
  const auto slot = answer.reply.number_at(4);
  if (verdict != "kept" || !token || !mode || !slot) return fail(malformed_reply("renew", where()));
  TRY_VOID(confirmed("renew", answer, Errc::unavailable));
  has_granted = true;
  return Kept{{lease.key, lease.owner, *mode, *token, static_cast<unsigned>(*slot),
               lease_end(answer.sent, ttl)},
              answer.reply.number_at(5) == 1};
}

Result<Released> FairBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  return released(lease, call_with_queue("release", scripts::release, keys_of(lease.key),
                                         {lease.owner.hex(), token_of(lease), micros(claim),
                                          end ? end->text() : ""}));
}

Result<Released> FairBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string wanted = token ? fmt::format_int(*token).str() : "";
  TRY(answer, call_with_queue("force a release", scripts::force_release, keys_of(key),
                              {wanted, micros(claim)}));
  return force_released(answer);
}

// Takes two exchanges. The first reads the holders. The second names the newest token that was
// read, so that script revoke asks only these holders.
Result<Released> FairBackend::revoke(const Key& key) {
  TRY(view, inspect(key));
  FencingToken newest = 0;
  for (const HolderView& h : view ? view->holders : std::vector<HolderView>{})
    if (!h.vanished) newest = std::max(newest, h.token);
  if (newest == 0 && view && !view->unknown_reason.empty())
    return fail(Errc::unavailable, "ask the holder to stop at {}: no holder is found; {}", where(),
                view->unknown_reason);
  if (newest == 0) return Released::was_not_held;
  TRY(answer, call("ask the holder to stop", scripts::revoke, key,
                   {fmt::format_int(newest).str(), Identity::mine("").encode()}));
  const auto marked = answer.reply.number_at(0);
  if (!marked) return fail(malformed_reply("ask the holder to stop", where()));
  return *marked > 0 ? Released::yes : none_found("ask the holder to stop", answer);
}

Result<Validity> FairBackend::check(const Key& key, const GrantId& id) {
  const auto* owner = std::get_if<Owner>(&id);
  std::vector<std::string> args{owner ? owner->hex() : "",
                                owner ? "" : fmt::format_int(std::get<FencingToken>(id)).str()};
  TRY(answer, call("check", scripts::check, key, std::move(args)));
  if (!answer.reply.is(Reply::Type::integer)) return fail(malformed_reply("check", where()));
  return answer.reply.integer == 1 ? Validity::valid : Validity::stale;
}

Result<RunStarts> FairBackend::starts(const Key& key) {
  TRY(answer, call("ask for the last start", scripts::starts, key, {}));
  const auto now = answer.reply.number_at(0), at = answer.reply.number_at(1),
             until = answer.reply.number_at(2);
  const bool none = answer.reply.text_at(1).empty();
  if (!now || (!none && (!at || !until)))
    return fail(malformed_reply("ask for the last start", where()));
  return none ? RunStarts{*now, {}} : RunStarts{*now, RunStart{*at, *until}};
}

// If a failover lost this record, a job could start twice in a period. So this record must be
// confirmed by as many replicas as a grant.
Result<UpdateResult> FairBackend::note_start(const Lease& lease, const RunStartUpdate& change) {
  const auto text = [](const std::optional<RunStart>& s) {
    return s ? fmt::format("{}|{}", s->at, s->until) : "";
  };
  TRY(answer, call("note the start", scripts::note_start, lease.key,
                   {lease.owner.hex(), token_of(lease), text(change.was), text(change.is)}, true));
  const auto noted = answer.reply.number_at(0);
  if (!noted) return fail(malformed_reply("note the start", where()));
  TRY_VOID(confirmed("note the start", answer, Errc::timed_out));
  if (*noted == 0) return UpdateResult::not_held;
  return *noted == 1 ? UpdateResult::yes : UpdateResult::other_start;
}

Result<std::optional<KeyView>> FairBackend::inspect(const FairKeys& keys, const Key* wanted) {
  TRY(answer,
      call_with_queue("inspect", scripts::inspect, keys, {fmt::format_int(most_shown).str()}));
  auto view = view_of(keys, answer.reply);
  if (!view) return view;
  std::string unknown_reason = client_->unread(answer);
  if (!*view && wanted && !unknown_reason.empty()) view->emplace().key = wanted->text();
  if (*view) (*view)->unknown_reason = std::move(unknown_reason);
  return view;
}

Result<std::vector<std::string>> FairBackend::names() {
  const std::string& prefix = options().prefix;
  std::vector<std::string> all;
  TRY_VOID(client_->scan_all({FairKeys::pattern(prefix)}, [&](std::string_view found) {
    if (auto name = FairKeys::name_in(found, prefix)) all.push_back(std::move(*name));
  }));
  return all;
}

}  // namespace dlock::redis
