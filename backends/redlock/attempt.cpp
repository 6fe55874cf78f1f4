// SPDX-License-Identifier: Apache-2.0
// Taking the lock: the two phases, and what to do when they fail.
#include <algorithm>
#include "redis/record.hpp"
#include "redlock/recipe.hpp"
#include "redlock_scripts/scripts.hpp"

namespace dlock::redlock {
namespace {

constexpr std::size_t owner_digits = 32, attempt_digits = 16;
constexpr int most_rounds = 4;  // of phase 1, for the greatest of a split vote

bool granted(const Vote& v) { return v.answered() && v.reply.text_at(2) == "granted"; }
bool busy(const Vote& v) { return v.answered() && v.reply.text_at(2) == "busy"; }
bool open(const Vote& v) { return v.open(); }
// Of split votes the greatest wins: by what is new in each attempt, so that nobody yields for ever.
std::string_view rank(std::string_view vote) { return vote.substr(std::min(owner_digits, vote.size())); }

}  // namespace

// Wherever a vote may be: also where nobody answered. A master that answered busy has none of ours.
void RedlockBackend::undo(const Names& names, const std::string& vote, Duration ttl) {
  const Deadline pointless = later(Clock::now(), ttl);
  masters_.tell([&](std::size_t) { return std::optional{Ask{&scripts::release, names.all(), {vote, "0"}, true, pointless}}; });
}

Attempt RedlockBackend::attempt(const Request& request) {
  Masters& m = masters_;
  // Asked again by whose grant is still in force, it is that grant again.
  const Grant* before_this = known(request.key, request.owner);
  const std::string vote = before_this && !before_this->given_back
                               ? before_this->vote
                               : request.owner.hex() + Owner::random().hex().substr(0, attempt_digits);
  const Names at = names(request.key);
  const std::size_t enough = m.majority();
  const Duration patience = node_patience(request.ttl);
  const Deadline sent = Clock::now(), phase_1_ends = later(sent, patience);
  const auto phase_1 = [&](std::size_t) {
    return std::optional{Ask{&scripts::acquire, at.all(), {vote, redis::millis(request.ttl), request.identity.encode()}}};
  };
  const auto decided = [&](const Votes& votes) {
    const std::size_t yes = count(votes, granted);
    return yes >= enough || yes + count(votes, open) < enough;
  };
  Votes votes = m.ask([&](std::size_t i) { return m.votes(i) ? phase_1(i) : std::nullopt; }, phase_1_ends, decided);

  std::vector<std::optional<Seen>> seen(m.size());
  const auto look = [&] {
    for (std::size_t i = 0; i < m.size(); ++i)
      if (busy(votes[i]) && votes[i].reply.items.size() == 4) seen[i] = parse_seen(votes[i].reply);
      else seen[i].reset();
    return leader_of(seen, enough);
  };
  Leader leader = look();
  // A split vote: the others yield to the greatest, which keeps what it has and asks those again that they had.
  const auto greatest = [&] {
    return leader.votes < enough &&
           std::all_of(seen.begin(), seen.end(), [&](const auto& s) { return !s || (s->ours() && rank(s->value) < rank(vote)); });
  };
  for (int round = 1; round < most_rounds && count(votes, granted) < enough && count(votes, granted) > 0 && greatest() &&
                      Clock::now() < phase_1_ends;
       ++round) {
    Duration slowest{};
    for (const Vote& v : votes) slowest = std::max(slowest, v.took);
    m.hear(
        std::min(phase_1_ends, later(Clock::now(), slowest * round)), [](std::size_t, const Heard&) { return false; }, false);
    Votes again = m.ask([&](std::size_t i) { return busy(votes[i]) ? phase_1(i) : std::nullopt; }, phase_1_ends,
                        [&](const Votes& v) { return count(votes, granted) + count(v, granted) >= enough; });
    for (std::size_t i = 0; i < m.size(); ++i)
      if (again[i].sent) votes[i] = std::move(again[i]);
    leader = look();
  }

  Attempt made;
  bool confirmed_before = false;
  if (count(votes, granted) >= enough) {
    FencingToken token = 0, before = 0;
    for (const Vote& v : votes) {
      if (!granted(v)) continue;
      token = std::max<FencingToken>(token, redis::parse_unsigned(v.reply.text_at(3)).value_or(0));
      before = std::max<FencingToken>(before, redis::parse_unsigned(v.reply.text_at(4)).value_or(0));
    }
    confirmed_before = before != 0;
    if (confirmed_before) token = before;  // the grant that this owner has already
    const auto yes = [](const Vote& v) { return v.answered() && v.reply.number_at(2) == 1; };
    const Votes confirmed = m.ask(
        [&](std::size_t i) {
          if (!votes[i].sent || busy(votes[i])) return std::optional<Ask>{};
          return std::optional{Ask{&scripts::confirm, at.all(), {vote, std::to_string(token)}}};
        },
        later(Clock::now(), patience),
        [&](const Votes& v) { return count(v, yes) >= enough || count(v, yes) + count(v, open) < enough; });
    const Deadline deadline = lease_end(sent, request.ttl);
    if (token != 0 && count(confirmed, yes) >= enough && Clock::now() + least_validity(request.ttl) <= deadline) {
      made.lease = Lease{request.key, request.owner};
      made.lease->token = token;
      made.lease->deadline = deadline;
      forget(request.key, request.owner);
      grants_.push_back({request.key, request.owner, vote});
      return made;
    }
    made.unanswered = true;
  }

  for (const Vote& v : votes) confirmed_before |= granted(v) && v.reply.text_at(4) != "0";
  const bool sent_any = count(votes, [](const Vote& v) { return v.sent && !busy(v); }) > 0;
  if (sent_any && !confirmed_before) {  // else a grant of this very vote is in force: who asks for it again does not take it back
    forget(request.key, request.owner);
    const Deadline pointless = later(Clock::now(), request.ttl);
    m.tell([&](std::size_t i) {
      if (!votes[i].sent || busy(votes[i])) return std::optional<Ask>{};
      return std::optional{Ask{&scripts::release, at.all(), {vote, "0"}, true, pointless}};
    });
  }
  const auto silent = [](const Vote& v) { return v.sent && !v.answered(); };
  made.unanswered |= count(votes, granted) + count(votes, silent) >= enough;
  made.split = leader.votes < enough;
  if (leader.votes > 0) {
    made.holder = leader.holder;
    made.foreign = !leader.ours;
  }
  for (const Vote& v : votes)
    if (v.state == Vote::State::failed && made.why.empty()) made.why = v.why.message;
  // Of the masters that may vote so many must become free.
  std::vector<Duration> ends;
  for (const auto& s : seen)
    if (s && s->left) ends.push_back(*s->left);
  const std::size_t free = count(votes, [](const Vote& v) { return v.sent && !busy(v); });
  std::sort(ends.begin(), ends.end());
  if (free >= enough) made.free_in = Duration{};
  else if (ends.size() >= enough - free) made.free_in = ends[enough - free - 1];
  return made;
}

}  // namespace dlock::redlock
