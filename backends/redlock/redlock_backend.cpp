// SPDX-License-Identifier: Apache-2.0
#include "redlock/redlock_backend.hpp"
#include <fmt/format.h>
#include <sys/epoll.h>
#include <algorithm>
#include "core/number.hpp"
#include "core/text.hpp"
#include "redlock_scripts/scripts.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr Stragglers a_little{10ms};
// How long after its reply a master accepts the script retake, by that master's clock.
constexpr Micros retake_within = 200'000;

bool kept(const Vote& v) { return v.says("kept"); }
bool other_list(const Vote& v) { return v.says("list"); }

}  // namespace

Deadline RedlockBackend::usual_deadline() const noexcept {
  return Clock::now() + options_.op_timeout + (ever_ready_ ? Duration{} : options_.connect_timeout);
}

Result<RedlockBackend::VoteRound> RedlockBackend::insist(
    const Calls& make, const std::function<bool(const Votes&)>& decided, Stragglers stragglers) {
  const Deadline by = usual_deadline();
  VoteRound out{{}, Clock::now()};
  for (;;) {
    TRY_VOID(masters_.gather(by, 50ms, true));
    ever_ready_ = true;
    // The exchange has its own time, however long connecting took.
    out.votes = masters_.call(make, std::max(by, later(Clock::now(), options_.op_timeout)), decided,
                              stragglers);
    if (decided(out.votes) || Clock::now() >= by) return out;
    if (auto why = hopeless(out.votes, masters_.majority()))
      return fail(why->code, "ask at {}: {}", where(), why->message);
    out.repeated = true;
    masters_.pause(std::min(by, later(Clock::now(), 10ms)));
  }
}

void RedlockBackend::gave(Duration ttl) {
  gave_ = std::max(gave_, ttl);
  watch();
}

// A lease that is longer than any lease granted so far must pass the checks of a new lease.
Result<Renewal> RedlockBackend::renew(const Lease& lease, Duration ttl) {
  if (ttl > gave_) TRY_VOID(redis::within_grace({ttl}, options_.restart_grace));
  auto renewal = extend(lease, ttl, "");
  if (renewal && std::holds_alternative<Kept>(*renewal)) gave(ttl);
  return renewal;
}

// The lock stays for the rest of --min-hold, but a restart of masters may lose it.
Result<Renewal> RedlockBackend::detach(const Lease& lease, Duration ttl,
                                       std::optional<RunEnd> end) {
  return extend(lease, ttl, end ? end->text() : "");
}

Result<Renewal> RedlockBackend::extend(const Lease& lease, Duration ttl, std::string ended) {
  Masters& m = masters_;
  const Names at = names(lease.key);
  const std::string vote = lease.owner.hex();
  const auto refused = [](const Vote& v) { return v.answered() && !kept(v) && !other_list(v); };
  const auto is_lost = [&](const Votes& v) { return !m.majority_without(count(v, refused)); };
  TRY(round, insist(same({&scripts::renew,
                          at.all(),
                          {vote, redis::millis(ttl), std::to_string(lease.token),
                           list_text(options_), std::move(ended)}}),
                    [&](const Votes& v) {
                      return count(v, kept) >= m.majority() || is_lost(v) ||
                             !m.majority_without(count(v, other_list));
                    },
                    {node_patience(ttl), true}));
  const Votes& votes = round.votes;
  if (is_lost(votes)) {
    undo(at, vote, ttl);  // the votes that are left would only block others
    return Lost{fmt::format(
        "{} of {} masters do not have it any more: it expired, or was removed or replaced",
        count(votes, refused), m.size())};
  }
  if (count(votes, kept) >= m.majority()) return renewed(lease, ttl, round, at);
  for (std::size_t i = 0; i < m.size(); ++i)
    if (other_list(votes[i])) return fail(wrong_list(i, votes[i].reply.text_at(3)));
  std::string why;
  for (const Vote& v : votes)
    if (v.failed()) why = ": " + v.why.message;
  return fail(Errc::timed_out, "renew at {}: only {} of {} masters renewed it{}", where(),
              count(votes, kept), m.size(), why);
}

// A majority has the lease now, so no other owner can have it. Masters without the lease are asked
// for their votes again. These votes count from the next renewal on.
Result<Renewal> RedlockBackend::renewed(const Lease& lease, Duration ttl, const VoteRound& round,
                                        const Names& at) {
  const Votes& votes = round.votes;
  Lease longer{lease.key, lease.owner};
  longer.deadline = lease_end(round.sent, ttl);
  std::string since = "0", meta;
  bool revoked = false;  // if a majority has the mark, at least one of these masters has it
  for (const Vote& v : votes) {
    if (!kept(v)) continue;
    revoked |= is_revoked(v.reply.text_at(5));
    const auto token = parse_number<FencingToken>(v.reply.text_at(3)).value_or(0);
    if (token <= longer.token) continue;
    longer.token = token;
    since = v.reply.text_at(4);
    meta = v.reply.text_at(5);
  }
  if (longer.token == 0)
    return fail(Errc::protocol, "renew at {}: no master knows its token", where());
  // masters that vote for us again get the mark, too
  if (revoked && !is_revoked(meta)) meta += stop_mark;
  masters_.send([&](std::size_t i) -> std::optional<Call> {
    if (!votes[i].says("absent") || !masters_.votes(i)) return std::nullopt;
    const Micros not_after = votes[i].reply.number_at(1).value_or(0) + retake_within;
    return Call{&scripts::retake,
                at.all(),
                {lease.owner.hex(), redis::millis(ttl), std::to_string(longer.token),
                 std::to_string(not_after), since, meta, list_text(options_)}};
  });
  watch();
  return Kept{std::move(longer), revoked};
}

Error RedlockBackend::wrong_list(std::size_t master, std::string_view recorded) const {
  return {
      Errc::usage,
      fmt::format("{}: the masters of this lock are {}, and not {}", masters_[master].at().text(),
                  printable(KnownList::parse(recorded).text), list_text(options_))};
}

Error RedlockBackend::too_few_answered(std::string_view what, std::size_t answered) const {
  return {Errc::timed_out, fmt::format("{} at {}: only {} of {} masters answered", what, where(),
                                       answered, masters_.size())};
}

Result<void> RedlockBackend::nothing_unread(std::string_view what, const NodeStates& states) const {
  const std::string why = unread(states);
  if (why.empty()) return {};
  return fail(Errc::unavailable, "{} at {}: no holder is found; {}", what, where(), why);
}

void RedlockBackend::undo(const Names& names, const std::string& vote, Duration ttl,
                          std::function<bool(std::size_t)> whom) {
  masters_.send(
      same({&scripts::release, names.all(), {vote, "0"}, true, later(Clock::now(), ttl)}, whom));
}

// A holder renews, and so checks the votes, when a connection breaks and when a slow master becomes
// ready. A late reply does not make it renew, because renewals would cause more late replies.
Health RedlockBackend::health() {
  if (!outage_) {
    outage_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
    watch();
  }
  return {outage_.get(), in_grace};
}

void RedlockBackend::watch() {
  if (!outage_) return;
  for (Node& n : masters_.nodes()) {
    const int fd = n.line().poll_fd();
    if (fd < 0) continue;
    epoll_event e{};  // the bits of epoll equal those of poll(2)
    e.events = n.ready() ? EPOLLRDHUP : static_cast<std::uint32_t>(n.line().poll_events());
    if (::epoll_ctl(outage_.get(), EPOLL_CTL_MOD, fd, &e) != 0)
      ::epoll_ctl(outage_.get(), EPOLL_CTL_ADD, fd, &e);
  }
}

Result<Released> RedlockBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  Masters& m = masters_;
  const Call give_back{
      &scripts::release,
      names(lease.key).all(),
      {lease.owner.hex(), "1", end ? end->text() : ""},
      true,
      lease.deadline == no_deadline ? later(Clock::now(), options_.op_timeout) : lease.deadline};
  const auto no = [](const Vote& v) { return v.answered() && !v.says_yes(); };
  const auto enough = [&](const Votes& v) { return count(v, &Vote::answered) >= m.majority(); };
  // Wait until a majority has confirmed the release or no longer can, or until no reply is
  // outstanding.
  const auto decided = [&](const Votes& v) {
    return enough(v) && (count(v, &Vote::says_yes) >= m.majority() ||
                         !m.majority_without(count(v, no)) || count(v, &Vote::open) == 0);
  };
  TRY(round, insist(same(give_back), decided, a_little));
  const Votes& votes = round.votes;
  for (std::size_t i = 0; i < m.size(); ++i)
    if (!votes[i].sent()) m.nodes()[i].send_or_owe(give_back, m.next_number());
  if (!enough(votes)) {
    unanswered_.add(lease);
    return fail(too_few_answered("release", count(votes, &Vote::answered)));
  }
  // A majority had the grant, or may have had it: silent masters may have it if its time was not
  // over.
  const std::size_t yes = count(votes, &Vote::says_yes),
                    silent = m.size() - count(votes, &Vote::answered);
  const bool in_force = round.sent < lease.deadline;
  const bool had = yes > 0 && yes + (in_force ? silent : 0) >= m.majority();
  return unanswered_.answered(lease, had, round.repeated);
}

// Removes at each master only the value that was read there. So a late or repeated request removes
// no newer vote.
Result<Released> RedlockBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  Masters& m = masters_;
  if (token == FencingToken{0}) return Released::was_not_held;  // token 0 belongs to no grant
  const Names at = names(key);
  TRY(states, read_states(at));
  std::vector<std::string> owners;  // with this token, which some masters may not have stored
  for (const auto& s : states)
    if (s && s->ours() && token && s->token == *token) owners.push_back(s->value);
  const auto meant = [&](const std::optional<NodeState>& s) {
    return s && s->held() &&
           (!token || (s->ours() && std::ranges::find(owners, s->value) != owners.end()));
  };
  const auto due = static_cast<std::size_t>(std::ranges::count_if(states, meant));
  if (due == 0) TRY_VOID(nothing_unread("force a release", states));
  if (due == 0) return Released::was_not_held;
  const auto removes = [&](std::size_t i) -> std::optional<Call> {
    if (!meant(states[i])) return std::nullopt;
    return Call{&scripts::force_release, at.all(), {states[i]->type, states[i]->value}};
  };
  TRY(round, insist(removes, [&](const Votes& v) { return count(v, &Vote::answered) >= due; }));
  const Votes& votes = round.votes;
  if (count(votes, &Vote::answered) < std::min(due, m.majority()))
    return fail(too_few_answered("force a release", count(votes, &Vote::answered)));
  return round.repeated || count(votes, &Vote::says_yes) > 0 ? Released::yes
                                                             : Released::was_not_held;
}

// The request names the owner that was read, so a late or repeated request asks no other holder
// (redlock.lua).
Result<Released> RedlockBackend::revoke(const Key& key) {
  Masters& m = masters_;
  const Names at = names(key);
  TRY(states, read_states(at));
  TRY_VOID(nothing_unread("ask the holder to stop", states));
  const Leader leader = leader_of(states, m.majority());
  if (leader.votes < m.majority()) return Released::was_not_held;
  if (!leader.ours)
    return fail(Errc::usage,
                "--revoke: {} is held by another program, which cannot be "
                "asked to stop",
                printable(key.text()));
  const auto marked = [&](const Votes& v) { return count(v, &Vote::says_yes) >= m.majority(); };
  const auto no = [](const Vote& v) { return v.answered() && !v.says_yes(); };
  const auto is_over = [&](const Votes& v) { return !m.majority_without(count(v, no)); };
  TRY(round, insist(same({&scripts::revoke, at.all(), {leader.value}}),
                    [&](const Votes& v) { return marked(v) || is_over(v); }));
  if (marked(round.votes)) return Released::yes;
  if (is_over(round.votes)) return Released::was_not_held;
  return fail(too_few_answered("ask the holder to stop", count(round.votes, &Vote::says_yes)));
}

Result<Validity> RedlockBackend::check(const Key& key, const GrantId& id) {
  Masters& m = masters_;
  const auto* owner = std::get_if<Owner>(&id);
  const auto has = [&](const Vote& v) {
    const auto s = v.answered() ? parse_state(v.reply) : std::nullopt;
    return s && s->ours() && s->token != 0 &&
           (owner ? s->owner == owner->hex() : s->token == std::get<FencingToken>(id));
  };
  const auto has_not = [&](const Vote& v) { return v.answered() && !has(v); };
  const auto valid = [&](const Votes& v) { return count(v, has) >= m.majority(); };
  const auto stale = [&](const Votes& v) { return !m.majority_without(count(v, has_not)); };
  TRY(round, insist(same({&scripts::inspect, names(key).all(), {}}),
                    [&](const Votes& v) { return valid(v) || stale(v); }));
  const Votes& votes = round.votes;
  const std::string list = list_text(options_);
  for (std::size_t i = 0; i < m.size(); ++i)
    if (const auto s = has(votes[i]) ? parse_state(votes[i].reply) : std::nullopt;
        s && !s->list.empty() && s->list != list)
      return fail(wrong_list(i, s->list));
  if (valid(votes)) return Validity::valid;
  if (stale(votes)) return Validity::stale;
  return fail(Errc::unavailable,
              "check at {}: no majority: {} masters have it, {} have not, {} do not answer",
              where(), count(votes, has), count(votes, has_not),
              m.size() - count(votes, &Vote::answered));
}

}  // namespace dlock::redlock
