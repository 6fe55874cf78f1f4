// SPDX-License-Identifier: Apache-2.0
#include "redlock/recipe.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "redis/named_key.hpp"
#include "redis/record.hpp"
#include "redlock/waiter.hpp"
#include "redlock_scripts/scripts.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view record_prefix = "dlock:redlock:";
constexpr std::string_view wake_prefix = "dlock:redlock-wake:";
constexpr Duration stragglers = 10ms;      // after a decision, so that the last masters are seen as well
constexpr Micros retake_within = 200'000;  // by the master's clock, after its answer

bool says(const Vote& v, std::int64_t n) { return v.answered() && v.reply.number_at(2) == n; }

}  // namespace

Names::Names(std::string lock_name)
    : lock(std::move(lock_name)), record(std::string{record_prefix} + lock), wake(std::string{wake_prefix} + lock) {}
std::optional<std::string> Names::lock_of(std::string_view record) {
  if (!record.starts_with(record_prefix)) return std::nullopt;
  return std::string{record.substr(record_prefix.size())};
}
std::string Names::records_below(std::string_view prefix) {
  return fmt::format("{}{}*", record_prefix, redis::glob_escape(prefix));
}

Result<std::unique_ptr<RedlockBackend>> RedlockBackend::create(const Traits& traits, redis::Options options) {
  std::optional<redis::TlsContext> tls;
  if (options.tls) {
    auto made = redis::TlsContext::create(*options.tls);
    if (!made) return fail(std::move(made.error()));
    tls = std::move(*made);
  }
  return std::unique_ptr<RedlockBackend>{new RedlockBackend{traits, std::move(options), std::move(tls)}};
}

Result<std::unique_ptr<Waiter>> RedlockBackend::enqueue(const Request& request) {
  const auto refuse = [&](std::string_view what) { return fail(Errc::usage, fmt::format("redlock: {}", what)); };
  if (request.mode == Mode::shared) return refuse("no --shared: the programs it excludes with know one holder only");
  if (request.mode == Mode::permit) return refuse("no --limit: the programs it excludes with know one holder only");
  if (request.lock_delay > Duration{}) return refuse("no --lock-delay: masters delete what nobody renews");
  if (request.ttl <= Duration{}) return refuse("a lease needs a --ttl above 0");
  return std::make_unique<RedlockWaiter>(*this, request);
}

Deadline RedlockBackend::usual_deadline() const noexcept {
  return Clock::now() + options_.op_timeout + (ever_ready_ ? Duration{} : options_.connect_timeout);
}

Result<RedlockBackend::Outcome> RedlockBackend::insist(const Ask& ask, const std::function<bool(const Votes&)>& decided,
                                                       Duration patience) {
  const Deadline by = usual_deadline();
  Outcome out{{}, Clock::now()};
  for (;;) {
    if (auto ok = masters_.gather(by, 50ms, true); !ok) return fail(std::move(ok.error()));
    if (masters_.ready() < masters_.majority()) return fail(masters_.too_few());
    ever_ready_ = true;
    out.votes = masters_.ask([&](std::size_t) { return std::optional{ask}; }, by, decided, patience);
    if (decided(out.votes) || Clock::now() >= by) return out;
    out.repeated = true;
    masters_.hear(
        std::min(by, later(Clock::now(), 10ms)), [](std::size_t, const Heard&) { return false; }, false);
  }
}

RedlockBackend::Grant* RedlockBackend::known(const Key& key, const Owner& owner) {
  const auto at = std::find_if(grants_.begin(), grants_.end(), [&](const Grant& g) { return g.key == key && g.owner == owner; });
  return at == grants_.end() ? nullptr : &*at;
}

void RedlockBackend::forget(const Key& key, const Owner& owner) {
  std::erase_if(grants_, [&](const Grant& g) { return g.key == key && g.owner == owner; });
}

// A vote that no majority confirmed may be what an attempt left behind, which is being undone: it is not relied upon. A grant was confirmed by a
// majority, one of which is among any other.
Result<std::optional<std::string>> RedlockBackend::vote_of(const Lease& lease) {
  if (const Grant* g = known(lease.key, lease.owner)) return g->vote;
  const auto seen = look(names(lease.key));
  if (!seen) return fail(seen.error());
  const Seen* newest = nullptr;
  for (const auto& s : *seen)
    if (s && s->ours() && s->token != 0 && s->owner.starts_with(lease.owner.hex()) && (!newest || s->token > newest->token))
      newest = &*s;
  if (!newest) return std::optional<std::string>{};
  grants_.push_back({lease.key, lease.owner, newest->owner});
  return newest->owner;
}

Result<Renewal> RedlockBackend::renew(const Lease& lease, Duration ttl) {
  Masters& m = masters_;
  const Names at = names(lease.key);
  const auto ours = vote_of(lease);
  if (!ours) return fail(ours.error());
  if (!*ours) return Lost{"no majority of the masters has it any more: its time was over, or somebody removed or replaced it"};
  const std::string vote = **ours, px = redis::millis(ttl);
  const auto kept = [](const Vote& v) { return v.answered() && v.reply.text_at(2) == "kept"; };
  const auto refused = [&](const Vote& v) { return v.answered() && !kept(v); };
  const auto is_lost = [&](const Votes& v) { return count(v, refused) > m.size() - m.majority(); };
  const auto asked = insist(
      {&scripts::renew, at.all(), {vote, px, std::to_string(lease.token)}},
      [&](const Votes& v) { return count(v, kept) >= m.majority() || is_lost(v); }, stragglers);
  if (!asked) return fail(asked.error());
  const Votes& votes = asked->votes;
  if (is_lost(votes)) {
    forget(lease.key, lease.owner);
    undo(at, vote, ttl);  // what is left of it would only be in the way
    return Lost{fmt::format("{} of {} masters do not have it any more: its time was over, or somebody removed or replaced it",
                            count(votes, refused), m.size())};
  }
  if (count(votes, kept) < m.majority()) {
    std::string why;
    for (const Vote& v : votes)
      if (v.state == Vote::State::failed) why = ": " + v.why.message;
    return fail(Errc::timed_out,
                fmt::format("renew at {}: only {} of {} masters renewed it{}", where(), count(votes, kept), m.size(), why));
  }
  Lease longer{lease.key, lease.owner};
  longer.deadline = lease_end(asked->sent, ttl);
  std::string since = "0", meta;
  for (const Vote& v : votes) {
    if (!kept(v)) continue;
    const FencingToken token = redis::parse_unsigned(v.reply.text_at(3)).value_or(0);
    if (token <= longer.token) continue;
    longer.token = token;
    since = v.reply.text_at(4);
    meta = v.reply.text_at(5);
  }
  if (longer.token == 0) return fail(Errc::protocol, fmt::format("renew at {}: no master knows its token", where()));
  // A majority has it this moment, so nobody else can: masters that have nothing are asked for their votes again, and counted from the next renewal on.
  m.tell([&](std::size_t i) {
    if (!votes[i].answered() || votes[i].reply.text_at(2) != "absent" || !m.votes(i)) return std::optional<Ask>{};
    const std::string not_after = std::to_string(votes[i].reply.number_at(1).value_or(0) + retake_within);
    return std::optional{Ask{&scripts::retake, at.all(), {vote, px, std::to_string(longer.token), not_after, since, meta}}};
  });
  return Kept{std::move(longer)};
}

Result<Released> RedlockBackend::release(const Lease& lease) {
  Masters& m = masters_;
  const Names at = names(lease.key);
  const auto ours = vote_of(lease);
  if (!ours) return fail(ours.error());
  if (!*ours) return Released::was_not_held;
  const std::string vote = **ours;
  if (Grant* g = known(lease.key, lease.owner)) g->given_back = true;
  const Ask give_back{&scripts::release,
                      at.all(),
                      {vote, "1"},
                      true,
                      lease.deadline == no_deadline ? later(Clock::now(), options_.op_timeout) : lease.deadline};
  const auto gone = [](const Vote& v) { return v.answered(); };
  const auto deleted = [](const Vote& v) { return says(v, 1); };
  const auto asked = insist(
      give_back, [&](const Votes& v) { return count(v, gone) >= m.majority(); }, stragglers);
  if (!asked) return fail(asked.error());
  const Votes& votes = asked->votes;
  for (std::size_t i = 0; i < m.size(); ++i)
    if (!votes[i].sent) m.nodes()[i].send_or_owe(give_back, m.next_number());
  const bool asked_before = release_unanswered_ == lease.owner;
  if (count(votes, gone) < m.majority()) {
    release_unanswered_ = lease.owner;
    return fail(Errc::timed_out,
                fmt::format("release at {}: only {} of {} masters answered", where(), count(votes, gone), m.size()));
  }
  forget(lease.key, lease.owner);
  // A majority had it, or may have had it as far as it answered.
  const std::size_t silent = count(votes, [](const Vote& v) { return !v.answered(); });
  const bool had = count(votes, deleted) > 0 && count(votes, deleted) + silent >= m.majority();
  // Not there, though its time was not over: an earlier request of ours, whose answers got lost, has removed it.
  const bool by_us = (asked->repeated || asked_before) && Clock::now() < lease.deadline;
  return had || by_us ? Released::yes : Released::was_not_held;
}

Result<Released> RedlockBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  Masters& m = masters_;
  if (token == FencingToken{0}) return Released::was_not_held;  // of no grant
  const std::string wanted = std::to_string(token.value_or(0));
  const Ask ask{&scripts::force_release, names(key).all(), {wanted}};
  const auto answered = [](const Vote& v) { return v.answered(); };
  const auto asked = insist(
      ask, [&](const Votes& v) { return count(v, answered) >= m.majority(); }, 200ms);
  if (!asked) return fail(asked.error());
  const Votes& votes = asked->votes;
  if (count(votes, answered) < m.majority())
    return fail(Errc::timed_out,
                fmt::format("force a release at {}: only {} of {} masters answered", where(), count(votes, answered), m.size()));
  return asked->repeated || count(votes, [](const Vote& v) { return says(v, 1); }) > 0 ? Released::yes : Released::was_not_held;
}

Result<Validity> RedlockBackend::check(const Key& key, FencingToken token) {
  return check(key, [&](const Seen& s) { return token != 0 && s.token == token; });
}
Result<Validity> RedlockBackend::check(const Key& key, const Owner& owner) {
  return check(key, [&](const Seen& s) { return s.token != 0 && s.owner.starts_with(owner.hex()); });
}

Result<Validity> RedlockBackend::check(const Key& key, const std::function<bool(const Seen&)>& is_it) {
  Masters& m = masters_;
  const auto yes = [&](const Vote& v) {
    const auto s = v.answered() ? parse_seen(v.reply) : std::nullopt;
    return s && s->ours() && is_it(*s);
  };
  const auto no = [&](const Vote& v) { return v.answered() && !yes(v); };
  const auto valid = [&](const Votes& v) { return count(v, yes) >= m.majority(); };
  const auto stale = [&](const Votes& v) { return count(v, no) > m.size() - m.majority(); };
  const auto asked = insist(
      {&scripts::look, names(key).all(), {}}, [&](const Votes& v) { return valid(v) || stale(v); }, Duration{});
  if (!asked) return fail(asked.error());
  const Votes& votes = asked->votes;
  if (valid(votes)) return Validity::valid;
  if (stale(votes)) return Validity::stale;
  return fail(Errc::unavailable,
              fmt::format("check at {}: no majority: {} masters have it, {} have not, {} do not answer", where(),
                          count(votes, yes), count(votes, no), m.size() - count(votes, yes) - count(votes, no)));
}

}  // namespace dlock::redlock
