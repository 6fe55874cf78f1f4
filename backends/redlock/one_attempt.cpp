// SPDX-License-Identifier: Apache-2.0
#include "redlock/one_attempt.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/number.hpp"
#include "core/text.hpp"
#include "redlock_scripts/scripts.hpp"

namespace dlock::redlock {
namespace {

constexpr int most_rounds = 4;  // of phase 1, for the greatest of a split vote

bool granted(const Vote& v) { return v.says("granted"); }
bool busy(const Vote& v) { return v.says("busy"); }
bool refused_list(const Vote& v) { return v.says("list"); }
bool is_open(const Vote& v) { return v.open(); }
bool yes(const Vote& v) { return v.says_yes(); }
bool may_have_voted(const Vote& v) { return v.sent && !busy(v) && !refused_list(v); }

}  // namespace

OneAttempt::OneAttempt(RedlockBackend& backend, const Request& request, const Owner& owner)
    : backend_(backend),
      masters_(backend.masters()),
      request_(request),
      owner_(owner),
      vote_(owner.hex()),
      list_(list_text(backend.options())),
      at_(backend.names(request.key)),
      majority_(masters_.majority()),
      patience_(node_patience(request.ttl)),
      sent_(Clock::now()),
      phase_1_ends_(later(sent_, patience_)),
      seen_(masters_.size()),
      kept_(masters_.size(), false) {}

Attempt OneAttempt::run() {
  ask_for_votes();
  insist_if_greatest();
  if (auto why = hopeless(votes_, majority_))
    made_.refused =
        Error{why->code, fmt::format("acquire at {}: {}", backend_.where(), why->message)};
  else if (auto ok = judge_lists(); !ok) made_.refused = std::move(ok.error());
  if (!made_.refused && is_enough(votes_, granted)) made_.lease = confirm();
  if (made_.lease) return made_;
  undo();
  explain();
  return made_;
}

// ---- phase 1 -----------------------------------------------------------------------------------

std::optional<Ask> OneAttempt::vote_request(std::size_t i) const {
  if (!masters_.votes(i)) return std::nullopt;
  return Ask{&scripts::acquire,
             at_.all(),
             {vote_, redis::millis(request_.ttl), request_.identity.encode(), list_,
              backend_.options().list_change ? "1" : "0"}};
}

// If no master that voted knows this list, a fresh key cannot be told from a wrong list; so the
// others are waited for first.
void OneAttempt::ask_for_votes() {
  const bool change = backend_.options().list_change;
  votes_ = masters_.ask([&](std::size_t i) { return vote_request(i); }, phase_1_ends_,
                        [&](const Votes& votes) {
                          if (!change && count(votes, refused_list) > 0) return true;
                          const std::size_t ayes = count(votes, granted);
                          if (ayes + count(votes, is_open) < majority_) return true;
                          const bool known = std::any_of(
                              votes.begin(), votes.end(),
                              [&](const Vote& v) { return granted(v) && known_here(v); });
                          return ayes >= majority_ && known && !change;
                        });
  look();
}

void OneAttempt::look() {
  for (std::size_t i = 0; i < masters_.size(); ++i)
    if (busy(votes_[i])) seen_[i] = parse_seen(votes_[i].reply);
    else seen_[i].reset();
  leader_ = leader_of(seen_, majority_);
}

// A split vote: the other attempts yield to the greatest, which keeps its votes and asks the other
// masters again. Each attempt has another owner, so none yields for ever.
void OneAttempt::insist_if_greatest() {
  const auto greatest = [&] {
    return leader_.votes < majority_ && std::all_of(seen_.begin(), seen_.end(), [&](const auto& s) {
             return !s || (s->ours() && s->value < vote_);
           });
  };
  for (int round = 1; round < most_rounds && count(votes_, refused_list) == 0 &&
                      count(votes_, granted) < majority_ && count(votes_, granted) > 0 &&
                      greatest() && Clock::now() < phase_1_ends_;
       ++round) {
    Duration slowest{};
    for (const Vote& v : votes_) slowest = std::max(slowest, v.took);
    masters_.hear(
        std::min(phase_1_ends_, later(Clock::now(), slowest * round)),
        [](std::size_t, const Heard&) { return false; }, false);
    Votes again = masters_.ask(
        [&](std::size_t i) { return busy(votes_[i]) ? vote_request(i) : std::nullopt; },
        phase_1_ends_,
        [&](const Votes& v) { return count(votes_, granted) + count(v, granted) >= majority_; });
    for (std::size_t i = 0; i < masters_.size(); ++i)
      if (again[i].sent) votes_[i] = std::move(again[i]);
    look();
  }
}

// ---- the list ----------------------------------------------------------------------------------

std::string_view OneAttempt::known_list(const Vote& v) const {
  if (granted(v)) return v.reply.text_at(5);
  if (refused_list(v)) return v.reply.text_at(3);
  return {};
}
bool OneAttempt::known_here(const Vote& v) const { return known_list(v) == list_; }

// A change needs the votes of all masters that were kept of the old list. These are at least half
// of it: so a holder by that list would have one of them.
Result<void> OneAttempt::judge_lists() {
  const Options& options = backend_.options();
  const auto names = master_names(options);
  bool known = false;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    const std::string_view there =
        seen_[i] ? std::string_view{seen_[i]->list} : known_list(votes_[i]);
    if (there == list_) known = true;
    if (there.empty() || there == list_) continue;
    const KnownList other = KnownList::parse(there);
    if (!options.list_change)
      return fail(Errc::usage,
                  other.marked
                      ? fmt::format("{}: a change of the masters of this key from {} was begun and "
                                    "not finished: give ?list_change=yes",
                                    masters_[i].at().text(), printable(other.text))
                      : fmt::format("{}: the masters of this key are {}, and not {}; clients with "
                                    "different lists do not exclude "
                                    "each other (a list names hosts as they are written; to change "
                                    "it see dlock-redlock(7), CHANGING "
                                    "THE LIST)",
                                    masters_[i].at().text(), printable(other.text), list_));
    changes_ = true;
    const auto before = other.masters();
    std::size_t both = 0;
    for (std::size_t j = 0; j < names.size(); ++j) {
      if (std::find(before.begin(), before.end(), names[j]) == before.end()) continue;
      kept_[j] = true;
      ++both;
    }
    if (both * 2 < before.size())
      return fail(Errc::usage, fmt::format("{}: list_change=yes must keep at least half of the "
                                           "masters of this key, which are {}; {} "
                                           "keeps {} of {}",
                                           masters_[i].at().text(), printable(other.text), list_,
                                           both, before.size()));
  }
  if (!options.list_change) return {};
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    // For a key unknown to those that answer, the silent ones may know another list.
    if (votes_[i].answered() || !(kept_[i] || (!known && !changes_))) continue;
    return fail(Errc::unavailable,
                fmt::format("{}: no vote; list_change=yes needs that of every master that was kept",
                            masters_[i].at().text()));
  }
  return {};
}

bool OneAttempt::is_enough(const Votes& votes, bool (*is_yes)(const Vote&)) const {
  for (std::size_t i = 0; i < masters_.size(); ++i)
    if (kept_[i] && !is_yes(votes[i])) return false;
  return count(votes, is_yes) >= majority_;
}

Votes OneAttempt::ask_for_list(FencingToken token, bool mark,
                               bool (*whom)(const OneAttempt&, std::size_t)) {
  return masters_.ask(
      [&](std::size_t i) {
        if (!may_have_voted(votes_[i]) || !whom(*this, i)) return std::optional<Ask>{};
        return std::optional{Ask{
            &scripts::list, at_.all(), {vote_, std::to_string(token), list_, mark ? "1" : "0"}}};
      },
      later(Clock::now(), patience_),
      [&](const Votes& v) {
        for (std::size_t i = 0; i < masters_.size(); ++i)
          if (kept_[i] && !yes(v[i])) return !v[i].open();
        return true;
      });
}

// First every kept master stores that the list is being changed, then any stores the new one:
// whatever gets lost, clients of both lists can never have a majority at the same time.
bool OneAttempt::change_list(FencingToken token) {
  const auto done = [&](const Votes& v) {
    for (std::size_t i = 0; i < masters_.size(); ++i)
      if (kept_[i] && !yes(v[i])) return false;
    return true;
  };
  return done(ask_for_list(
             token, true, [](const OneAttempt& a, std::size_t i) -> bool { return a.kept_[i]; })) &&
         done(ask_for_list(token, false, [](const OneAttempt&, std::size_t) { return true; }));
}

// Without waiting: a lost copy is made up by the next renewal, or grant. If some have stored it,
// those that have not answered will, too.
void OneAttempt::tell_list(FencingToken token) {
  const bool known =
      std::any_of(votes_.begin(), votes_.end(), [&](const Vote& v) { return known_here(v); });
  masters_.tell([&](std::size_t i) {
    const Vote& v = votes_[i];
    if (!may_have_voted(v) || known_here(v) || (known && !v.answered()))
      return std::optional<Ask>{};
    return std::optional{
        Ask{&scripts::list, at_.all(), {vote_, std::to_string(token), list_, "0"}}};
  });
}

// ---- phase 2 -----------------------------------------------------------------------------------

std::optional<Lease> OneAttempt::confirm() {
  FencingToken token = 0, before = 0;
  for (const Vote& v : votes_) {
    if (!granted(v)) continue;
    token =
        std::max<FencingToken>(token, parse_number<std::uint64_t>(v.reply.text_at(3)).value_or(0));
    before =
        std::max<FencingToken>(before, parse_number<std::uint64_t>(v.reply.text_at(4)).value_or(0));
  }
  if (before != 0) token = before;  // the grant that this owner has already
  const Votes confirmed = masters_.ask(
      [&](std::size_t i) {
        if (!may_have_voted(votes_[i])) return std::optional<Ask>{};
        return std::optional{Ask{&scripts::confirm, at_.all(), {vote_, std::to_string(token)}}};
      },
      later(Clock::now(), patience_),
      [&](const Votes& v) {
        for (std::size_t i = 0; i < masters_.size(); ++i)
          if (kept_[i] && !yes(v[i])) return !v[i].open();
        return count(v, yes) >= majority_ || count(v, yes) + count(v, is_open) < majority_;
      });
  made_.unanswered = true;
  if (token == 0 || !is_enough(confirmed, yes)) return std::nullopt;
  if (changes_ && !change_list(token)) {
    made_.refused =
        Error{Errc::timed_out,
              fmt::format("{}: not every master that was kept took the new list: try again",
                          backend_.where())};
    return std::nullopt;
  }
  Lease lease{request_.key, owner_};
  lease.token = token;
  lease.deadline = lease_end(sent_, request_.ttl);
  if (Clock::now() + least_validity(request_.ttl) > lease.deadline) return std::nullopt;
  if (!changes_) tell_list(token);
  return lease;
}

// ---- failure -----------------------------------------------------------------------------------

// At every master that may have a vote: also those that did not answer. A master that answered busy
// has none of ours.
void OneAttempt::undo() {
  for (const Vote& v : votes_) before_ |= granted(v) && v.reply.text_at(4) != "0";
  // a repeated request for a grant in force does not undo it
  if (before_ || count(votes_, may_have_voted) == 0) return;
  made_.undone = true;
  const Deadline pointless = later(Clock::now(), request_.ttl);
  masters_.tell([&](std::size_t i) {
    if (!may_have_voted(votes_[i])) return std::optional<Ask>{};
    return std::optional{Ask{&scripts::release, at_.all(), {vote_, "0"}, true, pointless}};
  });
}

void OneAttempt::explain() {
  const auto silent = [](const Vote& v) { return v.sent && !v.answered(); };
  made_.unanswered |=
      count(votes_, granted) + count(votes_, silent) >= majority_ &&
      is_enough(votes_, [](const Vote& v) { return granted(v) || (v.sent && !v.answered()); });
  if (leader_.votes > 0) {
    made_.holder = leader_.holder;
    made_.foreign = !leader_.ours;
  }
  for (const Vote& v : votes_)
    if (v.state == Vote::State::failed && made_.why.empty()) made_.why = v.why.message;
  // The number of voting masters that must become free.
  std::vector<Duration> ends;
  for (const auto& s : seen_)
    if (s && s->left) ends.push_back(*s->left);
  const std::size_t free = count(votes_, may_have_voted);
  std::sort(ends.begin(), ends.end());
  if (free >= majority_ && !changes_) made_.free_in = Duration{};
  else if (changes_ && !ends.empty()) made_.free_in = ends.back();
  else if (free < majority_ && ends.size() >= majority_ - free)
    made_.free_in = ends[majority_ - free - 1];
}

}  // namespace dlock::redlock
