// SPDX-License-Identifier: Apache-2.0
#include "simulation/store.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include "core/number.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::simulation {
namespace {

namespace scripts = redis::scripts;

constexpr Nanos longest_lag = 4 * second;

// ---- RESP ----
std::string bulk(std::string_view text) { return fmt::format("${}\r\n{}\r\n", text.size(), text); }
std::string number(std::int64_t n) { return fmt::format(":{}\r\n", n); }
template <class... Items>
std::string list(const Items&... items) {
  return fmt::format("*{}\r\n", sizeof...(items)) + (std::string{} + ... + items);
}

// The next command, removed from `from`; nothing: it is not complete.
std::optional<std::vector<std::string>> take_command(std::string& from) {
  std::size_t at = 0;
  const auto figure = [&](char mark) -> std::optional<std::size_t> {
    const std::size_t end = from.find("\r\n", at);
    if (end == from.npos || from[at] != mark) return std::nullopt;
    const auto n = parse_number<std::size_t>(std::string_view{from}.substr(at + 1, end - at - 1));
    at = end + 2;
    return n;
  };
  const auto count = figure('*');
  if (!count) return std::nullopt;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < *count; ++i) {
    const auto size = figure('$');
    if (!size || from.size() < at + *size + 2) return std::nullopt;
    words.push_back(from.substr(at, *size));
    at += *size + 2;
  }
  from.erase(0, at);
  return words;
}

std::string_view script_name(std::string_view sha_or_text) {
  for (const auto& [s, name] : {std::pair{&scripts::acquire, "acquire"},
                                {&scripts::release, "release"},
                                {&scripts::renew, "renew"},
                                {&scripts::cancel, "cancel"},
                                {&scripts::inspect, "inspect"}})
    if (sha_or_text == s->sha || sha_or_text == s->text) return name;
  return {};
}

Micros value(const std::string& digits) { return parse_number<Micros>(digits).value_or(0); }
Micros instant(Micros t) noexcept { return t == never ? 0 : t; }

// token|id|deadline|since|mode|slot|delay|granted|meta
std::string shown(const LockState::Holder& h) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", h.token, h.owner.hex().substr(0, 8), h.deadline,
                     h.since, static_cast<char>(h.mode), h.slot, h.delay, h.since, h.meta);
}
std::string oldest(const LockState& s) {
  const auto first =
      std::min_element(s.holders.begin(), s.holders.end(),
                       [](const auto& a, const auto& b) { return a.token < b.token; });
  return first == s.holders.end() ? "" : shown(*first);
}

// The rank of the first waiter that may not run: LockState itself is asked, on a copy.
std::size_t first_stopped(const LockState& state, Micros now) {
  for (std::size_t rank = 0; rank < state.waiters.size(); ++rank) {
    LockState copy = state;
    const auto& w = state.waiters[rank];
    LockState::Acquisition ask;
    ask.owner = w.owner, ask.mode = w.mode, ask.limit = w.limit;
    if (!std::holds_alternative<LockState::Granted>(copy.acquire(ask, now))) return rank;
  }
  return state.waiters.size();
}

}  // namespace

std::string Store::name_of(std::string_view request) const {
  std::string rest{request}, names;
  while (const auto words = take_command(rest)) {
    std::string_view name = (*words)[0];
    if (name.starts_with("EVAL") && words->size() > 1) name = script_name((*words)[1]);
    if (names.find(name) == names.npos) names += (names.empty() ? "" : ", ") + std::string{name};
  }
  return names;
}

bool Store::undoes(std::string_view request) const {
  return request.find(scripts::release.sha) != request.npos ||
         request.find(scripts::cancel.sha) != request.npos;
}

void Store::serve(const LinkPtr& link) {
  std::string replies;
  while (const auto words = take_command(link->unparsed)) replies += execute(link, *words);
  if (!replies.empty()) network_->reply(link, std::move(replies));
}

void Store::closed(const LinkPtr& link) {
  link->waits_for_wake = 0;
  std::erase(blocked_, link);
}

void Store::restart() {
  if (!up_) return;
  if (world_.told()) world_.say("store", "restarts with an empty memory");
  goes_down();
  knows_scripts_ = false;
  keys_.clear();
  past_ = {{world_.now(), keys_}};
  world_.after(down_time, 21, [this] {
    up_ = true;
    started_ = world_.now();
    ++run_;
  });
}

// Its clients find it at the same address, and it has been up for long: there is no grace.
void Store::fail_over(Nanos lag) {
  if (!up_) return;
  if (world_.told()) world_.say("store", "a replica takes over");
  while (past_.size() > 1 && past_[1].first <= world_.now() - lag) past_.pop_front();
  Keys behind = std::move(past_.front().second);
  forgets(behind);
  goes_down();
  knows_scripts_ = false;
  keys_ = std::move(behind);
  past_ = {{world_.now(), keys_}};
  started_ = -100'000 * second;
  world_.after(down_time, 24, [this] {
    up_ = true;
    ++run_;
  });
}

void Store::evict() {
  if (!up_) return;
  if (world_.told()) world_.say("store", "evicts the lock");
  Keys left = keys_;
  for (auto& [name, key] : left) {
    key.state.holders.clear();
    key.state.fence = 0;
    if (!world_.dice.one_in(3)) continue;
    key.state.waiters.clear();  // the queue is a key of its own
    key.state.next_ticket = 1;
  }
  forgets(left);
  keys_ = std::move(left);
}

// Not promised: for a holder whose grant or renewal is lost, who learns it when it renews next,
// only the token protects. All others are as safe as ever.
void Store::forgets(const Keys& kept) {
  std::map<FencingToken, Nanos> grants;
  for (const auto& [name, key] : kept)
    for (const auto& h : key.state.holders)
      grants[h.token] = (h.deadline + 1 - clock_at_start) * 1000;  // rounded down in the store
  ledger_.forgotten_except(grants);
}

std::string Store::execute(const LinkPtr& link, const Words& words) {
  const std::string& name = words[0];
  if (name == "INFO") return bulk(info(words.size() > 1 ? words[1] : ""));
  if (name == "EVALSHA" && !knows_scripts_) return "-NOSCRIPT No matching script.\r\n";
  if (name == "EVALSHA" || name == "EVAL") {
    knows_scripts_ = true;
    return script(words);
  }
  if (name == "BLPOP") return blpop(link, words);
  if (name == "WAIT")
    return number(unconfirmed_one_in_ > 0 && world_.dice.one_in(unconfirmed_one_in_) ? 0 : 1);
  world_.broken(fmt::format("the simulated store does not know {}", name));
  return "-ERR unknown command\r\n";
}

std::string Store::info(std::string_view section) const {
  if (section == "replication") return "role:master\r\n";
  if (section == "memory") return "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n";
  return fmt::format(
      "redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{:040x}\r\nuptime_in_seconds:{}\r\n",
      run_, (world_.now() - started_) / second);
}

std::string Store::blpop(const LinkPtr& link, const Words& words) {
  const std::string& name = words[1];
  for (auto& [lock, key] : keys_) {
    const auto found = key.woken.find(name);
    if (found == key.woken.end()) continue;
    const bool there = found->second > micros();
    key.woken.erase(found);
    if (there) return list(bulk(name), bulk("1"));
  }
  const auto point = words[2].find('.');
  const Nanos span =
      value(words[2].substr(0, point)) * second +
      (point == std::string::npos ? 0 : value(words[2].substr(point + 1)) * millisecond);
  link->waits_for_wake = ++waits_;
  link->list = name;
  blocked_.push_back(link);
  world_.after(span, mixed(22, link->number), [this, link, wait = waits_] {
    if (link->waits_for_wake != wait) return;
    closed(link);
    network_->reply(link, "*-1\r\n");
  });
  return {};
}

std::string Store::script(const Words& words) {
  const std::size_t keys = static_cast<std::size_t>(value(words[2]));
  const std::string& lock = words[3];
  const Words args{words.begin() + 3 + static_cast<std::ptrdiff_t>(keys), words.end()};
  Key& key = keys_[lock];
  const std::string_view name = script_name(words[1]);
  std::string answer;
  if (name == "acquire") answer = acquire(key, lock, args);
  else if (name == "release") answer = release(key, lock, args);
  else if (name == "renew") answer = renew(key, args);
  else if (name == "cancel") answer = cancel(key, lock, args);
  else if (name == "inspect") answer = inspect(key);
  else world_.broken("the simulated store does not know this script");
  past_.emplace_back(world_.now(), keys_);
  while (past_.size() > 1 && past_[1].first < world_.now() - longest_lag) past_.pop_front();
  return answer;
}

void Store::invite(Key& key, const std::string& lock, Micros claim) {
  for (const std::uint64_t ticket : key.state.invite(micros(), claim)) {
    const auto w = std::find_if(key.state.waiters.begin(), key.state.waiters.end(),
                                [&](const auto& other) { return other.ticket == ticket; });
    const std::string name = lock.substr(0, lock.size() - 5) + "wake:" + w->owner.hex();
    const auto listens = std::find_if(blocked_.begin(), blocked_.end(),
                                      [&](const LinkPtr& l) { return l->list == name; });
    if (listens == blocked_.end()) {
      key.woken[name] = micros() + claim + 1'000'000;
      continue;
    }
    const LinkPtr link = *listens;
    closed(link);
    network_->reply(link, list(bulk(name), bulk("1")));
  }
}

// ARGV of backends/redis/fair/acquire.lua
std::string Store::acquire(Key& key, const std::string& lock, const Words& a) {
  LockState::Acquisition ask;
  ask.owner = Owner::parse(a[0]).value();
  ask.mode = static_cast<Mode>(a[1][0]);
  ask.limit = static_cast<unsigned>(value(a[2]));
  ask.ttl = value(a[3]);
  ask.delay = value(a[4]);
  ask.patience = value(a[5]);
  ask.meta = a[7];
  ask.wait = a[9] == "1";
  ask.queue_only = a[11] == "1";
  const Micros now = micros();
  ask.token_floor = static_cast<FencingToken>(now);
  key.state.expire(now);
  const bool held = key.state.holder(ask.owner, now) != nullptr;
  const auto answer = key.state.acquire(ask, now);
  if (!ask.queue_only) invite(key, lock, value(a[6]));
  if (const auto* g = std::get_if<LockState::Granted>(&answer)) {
    if (!held) {
      ledger_.granted(g->token, ask.mode, ask.limit, world_.now() + ask.ttl * 1000);
      if (world_.told())
        world_.say("store", fmt::format("grants token {} to {}", g->token, a[0].substr(0, 8)));
    }
    return list(bulk(held ? "held" : "granted"), number(now), bulk(std::to_string(g->token)),
                number(g->slot));
  }
  const Micros free_at = instant(key.state.free_at());
  if (std::holds_alternative<LockState::Busy>(answer))
    return list(bulk("busy"), number(now), number(free_at), bulk(oldest(key.state)));
  const auto rank = static_cast<std::int64_t>(key.state.rank_of(ask.owner));
  const bool first = rank <= static_cast<std::int64_t>(first_stopped(key.state, now));
  return list(bulk("waiting"), number(now), number(rank), number(free_at), number(first ? 1 : 0),
              bulk(oldest(key.state)));
}

// As the piece find_token and the scripts behind it compare: the owner, and the token unless it is
// ''.
bool Store::let_go(Key& key, const Owner& owner, std::string_view token, std::string_view how) {
  const LockState::Holder* const h = key.state.holder(owner, micros());
  if (!h || (!token.empty() && token != std::to_string(h->token))) return false;
  if (world_.told()) world_.say("store", fmt::format("{} of token {}", how, h->token));
  ledger_.removed(h->token, how);
  return key.state.release(owner, micros());
}

std::string Store::release(Key& key, const std::string& lock, const Words& a) {
  const bool done = let_go(key, Owner::parse(a[0]).value(), a[1], "release");
  invite(key, lock, value(a[2]));
  return list(number(done ? 1 : 0), number(micros()));
}

std::string Store::renew(Key& key, const Words& a) {
  const Owner owner = Owner::parse(a[0]).value();
  const Micros now = micros(), ttl = value(a[2]);
  const LockState::Holder* const h = key.state.holder(owner, now);
  if (h && !a[1].empty() && a[1] != std::to_string(h->token))
    return list(bulk("lost"), number(now));
  if (h && !a[3].empty() && ttl + h->delay > value(a[3]))
    return list(bulk("longer"), number(now), number(h->delay));
  const auto waiters = key.state.waiters;  // the script does not look at the queue
  const auto token = key.state.renew(owner, ttl, now);
  key.state.waiters = waiters;
  if (!token) return list(bulk("lost"), number(now));
  ledger_.renewed(*token, world_.now() + ttl * 1000);
  const LockState::Holder* const kept = key.state.holder(owner, now);
  return list(bulk("kept"), number(now), bulk(std::to_string(*token)),
              bulk(std::string{static_cast<char>(kept->mode)}), number(kept->slot), number(0));
}

std::string Store::cancel(Key& key, const std::string& lock, const Words& a) {
  const Owner owner = Owner::parse(a[0]).value();
  const bool released = let_go(key, owner, "", "cancel");
  key.state.expire(micros());
  const bool waited = key.state.cancel(owner);
  key.woken.erase(lock.substr(0, lock.size() - 5) + "wake:" + a[0]);
  invite(key, lock, value(a[4]));
  return list(number(waited ? 1 : 0), number(released ? 1 : 0), number(micros()));
}

std::string Store::inspect(const Key& key) const {
  std::string holders;
  std::size_t count = 0;
  for (const auto& h : key.state.holders)
    if (h.free_at() > micros()) holders += bulk(shown(h)), ++count;
  return list(number(micros()), key.state.fence ? bulk(std::to_string(key.state.fence)) : bulk(""),
              number(static_cast<std::int64_t>(count)), fmt::format("*{}\r\n", count) + holders,
              number(static_cast<std::int64_t>(key.state.waiters.size())), std::string{"*0\r\n"},
              bulk(""), bulk(""), bulk(""));
}

bool Store::empty() const {
  const Micros now = micros();
  return std::all_of(keys_.begin(), keys_.end(), [&](const auto& k) {
    const auto& s = k.second.state;
    return std::none_of(s.holders.begin(), s.holders.end(),
                        [&](const auto& h) { return h.deadline > now; });
  });
}

std::uint64_t Store::hash() const {
  std::uint64_t h = mixed(run_, (up_ ? 1U : 0U) + (knows_scripts_ ? 2U : 0U));
  h = mixed(h, static_cast<std::uint64_t>(frozen_until_));
  h = mixed(h, static_cast<std::uint64_t>(started_));
  for (const auto& [when, keys] : past_)
    h = mixed(h, mixed(static_cast<std::uint64_t>(when), hash(keys)));
  return mixed(h, hash(keys_));
}

std::uint64_t Store::hash(const Keys& keys) {
  std::uint64_t h = 0;
  for (const auto& [lock, key] : keys) {
    h = mixed(h, key.state.fence);
    for (const auto& holder : key.state.holders)
      h = mixed(h, mixed(holder.token, static_cast<std::uint64_t>(holder.deadline)));
    for (const auto& w : key.state.waiters)
      h = mixed(h, mixed(hash_of(w.owner.hex()), static_cast<std::uint64_t>(w.live_until)) +
                       (w.invited ? 1U : 0U));
    for (const auto& [name, until] : key.woken)
      h = mixed(h, hash_of(name) + static_cast<std::uint64_t>(until));
  }
  return h;
}

}  // namespace dlock::simulation
