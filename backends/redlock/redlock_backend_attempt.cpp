// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "core/number.hpp"
#include "core/text.hpp"
#include "redlock/redlock_backend.hpp"
#include "redlock_scripts/scripts.hpp"

namespace dlock::redlock {
namespace {

constexpr int most_rounds = 4;  // of phase 1, if votes are split and our owner id is the greatest

bool granted(const Vote& v) { return v.says("granted"); }
bool busy(const Vote& v) { return v.says("busy"); }
bool refused_list(const Vote& v) { return v.says("list"); }
bool yes_or_open(const Vote& v) { return v.says_yes() || v.open(); }
bool may_have_voted(const Vote& v) { return v.sent() && !busy(v) && !refused_list(v); }

std::string_view known_list(const Vote& v) {
  if (granted(v)) return v.reply.text_at(5);
  if (refused_list(v)) return v.reply.text_at(3);
  return {};
}

// One attempt: the two phases, the list of masters, and the undo after a failure.
class OneAttempt {
 public:
  OneAttempt(RedlockBackend& backend, const Request& request, const Owner& owner)
      : backend_(backend),
        masters_(backend.masters()),
        request_(request),
        owner_(owner),
        vote_(owner.hex()),
        list_(list_text(backend.options())),
        at_(backend.names(request.key)),
        patience_(node_patience(request.ttl)),
        states_(masters_.size()),
        kept_(masters_.size(), false) {}

  Attempt run() {
    request_votes();
    insist_if_greatest();
    if (auto why = hopeless(votes_, majority_))
      made_.refused =
          Error{why->code, fmt::format("acquire at {}: {}", backend_.where(), why->message)};
    else if (auto ok = judge_lists(); !ok) made_.refused = std::move(ok.error());
    if (!made_.refused && is_enough(votes_, granted)) made_.lease = confirm();
    if (made_.lease) return std::move(made_);
    undo();
    explain();
    return std::move(made_);
  }

 private:
  // ---- phase 1 ---------------------------------------------------------------------------------

  Calls vote_requests(const std::function<bool(std::size_t)>& whom) const {
    return same({&scripts::acquire,
                 at_.all(),
                 {vote_, redis::millis(request_.ttl), request_.identity.encode(), list_,
                  backend_.options().list_change ? "1" : "0"}},
                [this, whom](std::size_t i) { return masters_.votes(i) && (!whom || whom(i)); });
  }

  // If no master that has voted knows a list for the key, there are two possibilities: the key is
  // new, or only the other masters know its list. So wait for the other masters first.
  void request_votes() {
    const bool change = backend_.options().list_change;
    const auto known = [&](const Vote& v) { return granted(v) && known_list(v) == list_; };
    votes_ = masters_.call(vote_requests({}), phase_1_ends_, [&](const Votes& votes) {
      if (!change && count(votes, refused_list) > 0) return true;
      const std::size_t ayes = count(votes, granted);
      if (ayes + count(votes, &Vote::open) < majority_) return true;
      return ayes >= majority_ && count(votes, known) > 0 && !change;
    });
    read_votes();
  }

  void read_votes() {
    for (std::size_t i = 0; i < masters_.size(); ++i)
      states_[i] = busy(votes_[i]) ? parse_state(votes_[i].reply) : std::nullopt;
    leader_ = leader_of(states_, majority_);
  }

  // If the votes are split, attempts yield to the attempt with the greatest owner id, which keeps
  // its votes and asks the other masters again. Each attempt has a new owner id, so no client
  // yields for ever.
  void insist_if_greatest() {
    const auto smaller = [&](const auto& s) { return !s || (s->ours() && s->value < vote_); };
    const auto greatest = [&] {
      return leader_.votes < majority_ && std::ranges::all_of(states_, smaller);
    };
    for (int round = 1; round < most_rounds && count(votes_, refused_list) == 0 &&
                        count(votes_, granted) < majority_ && count(votes_, granted) > 0 &&
                        greatest() && Clock::now() < phase_1_ends_;
         ++round) {
      Duration slowest{};
      for (const Vote& v : votes_) slowest = std::max(slowest, v.elapsed);
      masters_.pause(std::min(phase_1_ends_, later(Clock::now(), slowest * round)));
      Votes again = masters_.call(
          vote_requests([&](std::size_t i) { return busy(votes_[i]); }), phase_1_ends_,
          [&](const Votes& v) { return count(votes_, granted) + count(v, granted) >= majority_; });
      for (std::size_t i = 0; i < masters_.size(); ++i)
        if (again[i].sent()) votes_[i] = std::move(again[i]);
      read_votes();
    }
  }

  // ---- the list --------------------------------------------------------------------------------

  // To change the list, all kept masters (those of the old list that are also in the new list) must
  // vote. They are at least half of the old list, so a holder by the old list would have the vote
  // of one of them.
  Result<void> judge_lists() {
    const bool change = backend_.options().list_change;
    bool known = false;
    for (std::size_t i = 0; i < masters_.size(); ++i) {
      const std::string_view there =
          states_[i] ? std::string_view{states_[i]->list} : known_list(votes_[i]);
      known |= there == list_;
      if (there.empty() || there == list_) continue;
      if (!change) return fail(other_list(i, KnownList::parse(there)));
      changes_ = true;
      TRY_VOID(keep(i, KnownList::parse(there)));
    }
    for (std::size_t i = 0; change && i < masters_.size(); ++i) {
      // Even if no master that replied knows the key, a silent master may know another list.
      if (votes_[i].answered() || !(kept_[i] || (!known && !changes_))) continue;
      return fail(Errc::unavailable,
                  "{}: no vote; list_change=yes needs that of every master that was "
                  "kept",
                  masters_[i].at().text());
    }
    return {};
  }

  Error other_list(std::size_t i, const KnownList& other) const {
    const std::string at = masters_[i].at().text(), theirs = printable(other.text);
    if (other.marked)
      return {Errc::usage, fmt::format("{}: a change of the masters of this key from {} was begun "
                                       "and not finished: give ?list_change=yes",
                                       at, theirs)};
    return {Errc::usage,
            fmt::format("{}: the masters of this key are {}, and not {}; clients with different "
                        "lists do not exclude each other (a list names hosts as they are written; "
                        "to change it see dlock-redlock(7), CHANGING THE LIST)",
                        at, theirs, list_)};
  }

  Result<void> keep(std::size_t i, const KnownList& other) {
    const auto before = other.masters(), names = master_names(backend_.options());
    std::size_t both = 0;
    for (std::size_t j = 0; j < names.size(); ++j) {
      if (std::ranges::find(before, names[j]) == before.end()) continue;
      kept_[j] = true;
      ++both;
    }
    if (both * 2 >= before.size()) return {};
    return fail(Errc::usage,
                "{}: list_change=yes must keep at least half of the masters of this "
                "key, which are {}; {} keeps {} of {}",
                masters_[i].at().text(), printable(other.text), list_, both, before.size());
  }

  // A request that changes the list needs all kept masters; every request needs a majority.
  bool all_kept(const Votes& votes, const std::function<bool(const Vote&)>& is) const {
    for (std::size_t i = 0; i < masters_.size(); ++i)
      if (kept_[i] && !is(votes[i])) return false;
    return true;
  }
  bool is_enough(const Votes& votes, const std::function<bool(const Vote&)>& is) const {
    return all_kept(votes, is) && count(votes, is) >= majority_;
  }

  Calls list_requests(FencingToken token, bool marks,
                      const std::function<bool(std::size_t)>& whom) const {
    return same(
        {&scripts::list, at_.all(), {vote_, std::to_string(token), list_, marks ? "1" : "0"}},
        [this, whom](std::size_t i) { return may_have_voted(votes_[i]) && whom(i); });
  }

  // First, every kept master stores that the list is changing. Only then does a master store the
  // new list. So whatever message gets lost, the clients of the two lists never both have a
  // majority.
  bool change_list(FencingToken token) {
    for (const bool marks : {true, false}) {
      const Votes stored = masters_.call(
          list_requests(token, marks, [&](std::size_t i) { return kept_[i] || !marks; }),
          later(Clock::now(), patience_), [&](const Votes& v) {
            return all_kept(v, &Vote::says_yes) || !all_kept(v, yes_or_open);
          });
      if (!all_kept(stored, &Vote::says_yes)) return false;
    }
    return true;
  }

  // dlock does not wait for the replies, because the next renewal or grant stores the list again.
  // If some masters have stored the list before, only masters that replied get the request.
  void send_list(FencingToken token) {
    const auto known = [&](const Vote& v) { return known_list(v) == list_; };
    const bool stored = count(votes_, known) > 0;
    masters_.send(list_requests(token, false, [&](std::size_t i) {
      return !known(votes_[i]) && (!stored || votes_[i].answered());
    }));
  }

  // ---- phase 2 ---------------------------------------------------------------------------------

  std::optional<Lease> confirm() {
    FencingToken token = 0, before = 0;
    for (const Vote& v : votes_) {
      if (!granted(v)) continue;
      token = std::max(token, parse_number<FencingToken>(v.reply.text_at(3)).value_or(0));
      before = std::max(before, parse_number<FencingToken>(v.reply.text_at(4)).value_or(0));
    }
    if (before != 0) token = before;  // the token of the grant that this owner has already
    const Votes confirmed =
        masters_.call(same({&scripts::confirm, at_.all(), {vote_, std::to_string(token)}},
                           [&](std::size_t i) { return may_have_voted(votes_[i]); }),
                      later(Clock::now(), patience_), [&](const Votes& v) {
                        return is_enough(v, &Vote::says_yes) || !is_enough(v, yes_or_open);
                      });
    made_.unanswered = true;
    if (token == 0 || !is_enough(confirmed, &Vote::says_yes)) return std::nullopt;
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
    if (!changes_) send_list(token);
    return lease;
  }

  // ---- failure ---------------------------------------------------------------------------------

  // Sends the undo to every master that may have a vote, also to masters that did not reply. A
  // master that replied busy has none of our votes.
  void undo() {
    // A repeated request must not undo the grant that this owner has already.
    if (count(votes_, [](const Vote& v) { return granted(v) && v.reply.text_at(4) != "0"; }) > 0 ||
        count(votes_, may_have_voted) == 0)
      return;
    made_.undone = true;
    backend_.undo(at_, vote_, request_.ttl,
                  [&](std::size_t i) { return may_have_voted(votes_[i]); });
  }

  void explain() {
    made_.unanswered |=
        is_enough(votes_, [](const Vote& v) { return granted(v) || (v.sent() && !v.answered()); });
    if (leader_.votes > 0) {
      made_.holder = leader_.holder;
      made_.foreign = !leader_.ours;
    }
    for (const Vote& v : votes_)
      if (v.failed() && made_.why.empty()) made_.why = v.why.message;
    // Find out when enough busy masters will be free for a majority.
    std::vector<Duration> ends;
    for (const auto& s : states_)
      if (s && s->left) ends.push_back(*s->left);
    const std::size_t free = count(votes_, may_have_voted);
    std::ranges::sort(ends);
    if (free >= majority_ && !changes_) made_.free_in = Duration{};
    else if (changes_ && !ends.empty()) made_.free_in = ends.back();
    else if (free < majority_ && ends.size() >= majority_ - free)
      made_.free_in = ends[majority_ - free - 1];
  }

  RedlockBackend& backend_;
  Masters& masters_;
  const Request& request_;
  const Owner owner_;
  const std::string vote_, list_;
  const Names at_;
  const std::size_t majority_ = masters_.majority();
  const Duration patience_;
  const Deadline sent_ = Clock::now(), phase_1_ends_ = later(sent_, patience_);
  Votes votes_;
  NodeStates states_;
  // Whether each master is also in another list that masters know. Each such master must vote.
  std::vector<bool> kept_;
  bool changes_ = false;  // whether another list is known
  Leader leader_;
  Attempt made_;
};

}  // namespace

Attempt RedlockBackend::attempt(const Request& request, const Owner& owner) {
  return OneAttempt{*this, request, owner}.run();
}

}  // namespace dlock::redlock
