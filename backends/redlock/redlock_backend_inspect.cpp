// SPDX-License-Identifier: Apache-2.0
// What people see: holders, masters that disagree, names of keys, and findings about the masters.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include "common/lookup.hpp"
#include "core/duration.hpp"
#include "core/key.hpp"
#include "core/text.hpp"
#include "redis/doctor.hpp"
#include "redlock/redlock_backend.hpp"
#include "redlock_scripts/scripts.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 200ms;  // for masters whose replies matter only for display

std::string ends(const NodeState& s) {
  return s.left ? "ends in " + format_duration(*s.left) : "no expiry";
}

std::string state_of(const NodeState& s) {
  if (!s.held()) return "free";
  if (s.type != "string")
    return fmt::format("held by another program, type {}, {}", s.type, ends(s));
  if (!s.ours()) return fmt::format("held by another program, {}", ends(s));
  return fmt::format("held by {}{}, {}", s.owner.substr(0, 8),
                     s.token == 0 ? " (never confirmed)" : "", ends(s));
}

std::string state_at(const Node& n, const std::optional<NodeState>& s, const Vote& vote,
                     bool agrees) {
  if (!s) {
    const bool silent = !n.ready() && !n.pending();
    return fmt::format("{}: ? ({})", n.at().text(), silent ? n.why().message : "no answer in time");
  }
  const Micros offset = s->now - (vote.wall_received - vote.elapsed.count() / 2);
  return fmt::format("{}: {}round trip {:.1f} ms, clock {:+.3f} s", n.at().text(),
                     agrees ? "" : state_of(*s) + "; ",
                     static_cast<double>(vote.elapsed.count()) / 1e3,
                     static_cast<double>(offset) / 1e6);
}

// Returns the first address of a master, to find masters that are on one host.
std::string address_of(const Endpoint& at) {
  const auto found = look_up(at.host, at.port, later(Clock::now(), patience));
  return found ? found->front().text() : at.host;
}

}  // namespace

Result<NodeStates> RedlockBackend::read_states(const Names& at, Votes* out) {
  Masters& m = masters_;
  TRY(round, insist(same({&scripts::inspect, at.all(), {}}),
                    [&](const Votes& v) { return count(v, &Vote::answered) >= m.majority(); },
                    {patience, false, true}));
  NodeStates states(m.size());
  std::size_t understood = 0;
  Error why{Errc::unavailable, "no answer in time"};
  for (std::size_t i = 0; i < m.size(); ++i) {
    if (round.votes[i].answered()) states[i] = parse_state(round.votes[i].reply);
    understood += states[i].has_value();
    if (round.votes[i].failed()) why = round.votes[i].why;
  }
  if (understood < m.majority())
    return fail(why.code, "look at {}: only {} of {} masters answered: {}", where(), understood,
                m.size(), why.message);
  if (out) *out = std::move(round.votes);
  return states;
}

std::string RedlockBackend::unread(const NodeStates& states) const {
  const Masters& m = masters_;
  const Leader leader = leader_of(states, m.majority());
  std::size_t unsure = 0;
  for (std::size_t i = 0; i < m.size(); ++i)
    unsure += !states[i] || (!states[i]->held() && !m.votes(i));
  if (leader.votes >= m.majority() || leader.votes + unsure < m.majority()) return {};
  if (const Duration left = m.grace_left(); left > Duration{})
    return fmt::format(
        "nothing is granted for {}: {} of {} masters restarted less than {} ago and may have "
        "forgotten a vote",
        format_duration(left), m.ready() - m.voting(), m.size(),
        format_duration(options_.restart_grace));
  return fmt::format("{} of {} masters do not answer, or may have forgotten a vote", unsure,
                     m.size());
}

Result<std::optional<KeyView>> RedlockBackend::inspect(const Names& at, bool named) {
  Votes votes;
  TRY(states, read_states(at, &votes));
  const Masters& m = masters_;
  KeyView v;
  v.key = at.lock.substr(options_.prefix.size());
  v.waiters_known = false;
  bool known = false;
  for (const auto& s : states) {
    if (!s) continue;
    v.fence = std::max(v.fence, s->newest);
    known |= s->held() || s->newest != 0;
    if (auto run = last_run(s->meta); run && (!v.last_run || run->token > v.last_run->token))
      v.last_run = std::move(run);
  }
  const Leader leader = leader_of(states, m.majority());
  v.unknown_reason = unread(states);
  // A majority may have had a newer grant, which these masters have lost.
  if (!v.unknown_reason.empty()) v.fence = 0;
  if (!known) return named && !v.unknown_reason.empty() ? std::optional{v} : std::nullopt;

  const bool held = leader.votes >= m.majority();
  if (held) v.holders.push_back(leader.holder);
  const auto agrees = [&](const std::optional<NodeState>& s) {
    return s && (held ? s->held() && s->value == leader.value : !s->held());
  };
  v.notes.push_back(fmt::format("{}/{} nodes agree{}", std::ranges::count_if(states, agrees),
                                m.size(), held || leader.votes == 0 ? "" : "; no majority"));
  if (held && !leader.ours) v.notes.push_back("held by another program");
  const std::string list = list_text(options_);
  for (std::size_t i = 0; i < m.size(); ++i) {
    if (!states[i] || states[i]->list.empty() || states[i]->list == list) continue;
    const KnownList other = KnownList::parse(states[i]->list);
    v.notes.push_back(fmt::format("{}: has {} as the masters of this key{}", m[i].at().text(),
                                  printable(other.text),
                                  other.marked ? ", and that they are being changed" : ""));
  }
  for (std::size_t i = 0; i < m.size(); ++i)
    v.notes.push_back(state_at(m[i], states[i], votes[i], agrees(states[i])));
  return std::optional{std::move(v)};
}

Result<std::unique_ptr<redis::Client>> RedlockBackend::client_of(std::size_t master) const {
  redis::Options one = options_;
  one.topology = redis::Options::Topology::single;
  one.servers = {options_.servers[master]};
  return redis::Client::create(std::move(one));
}

Result<std::vector<std::string>> RedlockBackend::names() {
  const std::string& prefix = options_.prefix;
  TRY_VOID(can_list(prefix));
  TRY_VOID(masters_.gather(usual_deadline(), patience, true));
  std::vector<std::string> all;
  std::size_t scanned = 0, remember = 0;
  std::optional<Error> last;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    if (!masters_[i].ready()) continue;
    TRY(client, client_of(i));
    const auto found = [&](std::string_view name) {
      const std::string lock = Names::lock_of(name).value_or(std::string{name});
      if (lock.starts_with(prefix) && lock.size() > prefix.size())
        all.push_back(lock.substr(prefix.size()));
    };
    bool whole = true;
    for (const auto& pattern : {redis::glob_escape(prefix) + "*", Names::records_below(prefix)}) {
      auto ok = client->scan(options_.servers[i], pattern, found);
      whole &= ok.has_value();
      if (!ok) last = std::move(ok.error());
    }
    requests += client->requests;
    scanned += whole;
    remember += whole && masters_.votes(i);
  }
  in_grace = remember < masters_.majority();
  if (scanned < masters_.majority()) return fail(last.value_or(masters_.too_few()));
  return all;
}

// This needs every master, because a master that is left out would keep its numbers.
Result<void> RedlockBackend::erase(const Key& key) {
  const Names at = names(key);
  const redis::Command remove{
      .what = "remove", .keys = {at.lock}, .args = {"DEL", at.lock, at.record, at.wake}};
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    TRY(client, client_of(i));
    TRY_VOID(client->call(remove));
  }
  return {};
}

Result<std::vector<Finding>> RedlockBackend::doctor() {
  using Level = Finding::Level;
  TRY_VOID(masters_.gather(usual_deadline(), patience, true));
  Findings found;
  const std::size_t n = masters_.size();
  found.add("masters", fmt::format("{}, of which {} may fail", n, n - masters_.majority()),
            good_if(n >= 3 && n % 2 == 1, Level::warning), "use an odd number, three at least");
  std::map<std::string, std::size_t> hosts;
  for (const auto& at : options_.servers) ++hosts[address_of(at)];
  for (const auto& [host, here] : hosts)
    if (here > 1)
      found.add("masters on one host", fmt::format("{}: {} of {}", host, here, n),
                n - here < masters_.majority() ? Level::bad : Level::warning,
                "give each master a host of its own: these fail together");
  const redis::Needs needs{
      .in_scripts = {"time", "get", "set", "del", "pexpire", "pttl", "type", "llen", "rpush"},
      .blpop = true,
      .failover = false};
  for (std::size_t i = 0; i < n; ++i) {
    const auto& at = options_.servers[i];
    const std::string of = " of " + at.text();
    TRY(client, client_of(i));
    const std::string probe = options_.prefix + "dlock:doctor";
    if (auto ok = redis::examine(*client, at, needs, probe, of, found); !ok)
      found.add("answer" + of, ok.error().message, Level::bad, "it has no vote now");
    requests += client->requests;
  }
  return found.extract();
}

}  // namespace dlock::redlock
