// SPDX-License-Identifier: Apache-2.0
#include "redis/fair_recipe.hpp"
#include <fmt/format.h>
#include "redis/fair_inspect.hpp"
#include "redis/fair_waiter.hpp"
#include "redis/record.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::redis {
namespace {

// An answer that is none of those the script can give.
tl::unexpected<Error> not_understood(const Client& client, std::string_view what) {
  return fail(Errc::protocol, fmt::format("{} at {}: the answer makes no sense", what, client.options().where));
}

}  // namespace

Result<std::unique_ptr<Waiter>> FairBackend::enqueue(const Request& request) {
  if (request.ttl <= Duration{}) return fail(Errc::usage, "a lease needs a --ttl above 0");
  if (request.mode == Mode::permit && request.limit == 0) return fail(Errc::usage, "--limit is 0; allowed is 1 and more");
  return std::make_unique<FairWaiter>(*this, *client_, request);
}

Result<Renewal> FairBackend::renew(const Lease& lease, Duration ttl) {
  const unsigned replicas = client_->options().replicas;
  const FairKeys keys{client_->options().prefix, lease.key};
  const auto answer =
      client_->call({"renew", &scripts::renew, keys.all(), {lease.owner.hex(), micros(ttl), micros(claim)}}, replicas);
  if (!answer) return fail(answer.error());
  const std::string_view verdict = answer->reply.text_at(0);
  if (verdict == "lost") return Lost{"the server does not have it any more: its time was over, or somebody removed it"};
  const auto token = parse_unsigned(answer->reply.text_at(2));
  const auto mode = parse_mode(answer->reply.text_at(3));
  const auto slot = answer->reply.number_at(4);
  if (verdict != "kept" || !token || !mode || !slot) return not_understood(*client_, "renew");
  if (answer->copies < replicas)
    return fail(Errc::unavailable,
                fmt::format("renew at {}: only {} of {} replicas confirmed it", where(), answer->copies, replicas));
  return Kept{{lease.key, lease.owner, *mode, *token, static_cast<unsigned>(*slot), lease_end(answer->sent, ttl)}};
}

Result<Released> FairBackend::release(const Lease& lease) {
  const FairKeys keys{client_->options().prefix, lease.key};
  const auto answer = client_->call({"release", &scripts::release, keys.all(), {lease.owner.hex(), micros(claim)}});
  const bool asked_before = release_unanswered_ == lease.owner;
  if (!answer) {
    if (answer.error().code == Errc::timed_out) release_unanswered_ = lease.owner;
    return fail(answer.error());
  }
  const auto removed = answer->reply.number_at(0);
  if (!removed) return not_understood(*client_, "release");
  // Not there, though its time was not over: an earlier request of ours, whose answer got lost, has removed it.
  const bool by_us = (answer->repeated || asked_before) && Clock::now() < lease.deadline;
  return *removed == 1 || by_us ? Released::yes : Released::was_not_held;
}

Result<Released> FairBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const FairKeys keys{client_->options().prefix, key};
  const std::string wanted = token ? fmt::format_int(*token).str() : "";
  const auto answer = client_->call({"force a release", &scripts::force_release, keys.all(), {wanted, micros(claim)}});
  if (!answer) return fail(answer.error());
  const auto removed = answer->reply.number_at(0);
  if (!removed) return not_understood(*client_, "force a release");
  return *removed > 0 || answer->repeated ? Released::yes : Released::was_not_held;
}

Result<Validity> FairBackend::check(const Key& key, FencingToken token) { return check(key, "", fmt::format_int(token).str()); }
Result<Validity> FairBackend::check(const Key& key, const Owner& owner) { return check(key, owner.hex(), ""); }

Result<Validity> FairBackend::check(const Key& key, std::string owner, std::string token) {
  const FairKeys keys{client_->options().prefix, key};
  const auto answer = client_->call({"check", &scripts::check, keys.all(), {std::move(owner), std::move(token)}});
  if (!answer) return fail(answer.error());
  if (!answer->reply.is(Reply::Type::integer)) return not_understood(*client_, "check");
  return answer->reply.integer == 1 ? Validity::valid : Validity::stale;
}

Result<Starts> FairBackend::starts(const Key& key) {
  const FairKeys keys{client_->options().prefix, key};
  auto names = keys.all();
  names.push_back(keys.started());
  const auto answer = client_->call({"ask for the last start", &scripts::starts, std::move(names), {}});
  if (!answer) return fail(answer.error());
  const auto now = answer->reply.number_at(0);
  const std::string_view last = answer->reply.text_at(1);
  Starts found;
  if (now) found.now = *now;
  if (!last.empty()) found.last = answer->reply.number_at(1);
  if (!now || (!last.empty() && !found.last)) return not_understood(*client_, "ask for the last start");
  return found;
}

// A note that a failover forgets lets a job start twice in a period: it is confirmed by as many replicas as a grant.
Result<Validity> FairBackend::note_start(const Lease& lease, std::optional<std::int64_t> at, Duration keep) {
  const unsigned replicas = client_->options().replicas;
  const FairKeys keys{client_->options().prefix, lease.key};
  auto names = keys.all();
  names.push_back(keys.started());
  const auto answer = client_->call({"note the start",
                                     &scripts::note_start,
                                     std::move(names),
                                     {lease.owner.hex(), at ? fmt::format_int(*at).str() : "", millis(keep)}},
                                    replicas);
  if (!answer) return fail(answer.error());
  const auto noted = answer->reply.number_at(0);
  if (!noted) return not_understood(*client_, "note the start");
  if (answer->copies < replicas)
    return fail(Errc::timed_out,
                fmt::format("note the start at {}: only {} of {} replicas confirmed it", where(), answer->copies, replicas));
  return *noted == 1 ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> FairBackend::inspect(const Key& key) { return inspect(FairKeys{client_->options().prefix, key}); }

Result<std::optional<KeyView>> FairBackend::inspect(const FairKeys& keys) {
  const auto answer = client_->call({"inspect", &scripts::inspect, keys.all(), {fmt::format_int(most_shown).str()}});
  if (!answer) return fail(answer.error());
  return view_of(keys, answer->reply);
}

}  // namespace dlock::redis
