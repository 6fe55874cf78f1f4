// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/key_state.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include "core/text.hpp"
#include "job/process.hpp"

namespace dlock::cli {
namespace {

bool in_force(const HolderView& h) noexcept { return !h.ended(); }

template <class Predicate>
bool any(const KeyView& k, Predicate is) {
  return std::ranges::any_of(k.holders, is);
}

// Returns each limit that a holder or waiter asked for, with the name of one such contender.
std::map<unsigned, std::string> limits(const KeyView& k) {
  std::map<unsigned, std::string> all;
  const auto add = [&](Mode mode, const Identity& who) {
    if (mode == Mode::permit && who.limit != 0) all.try_emplace(who.limit, who.text());
  };
  for (const HolderView& h : k.holders)
    if (in_force(h)) add(h.mode, h.who);
  for (const WaiterView& w : k.waiters) add(w.mode, w.who);
  return all;
}

}  // namespace

KeyView free_key(const Key& key) {
  KeyView k;
  k.key = key.text();
  return k;
}

bool has_no_record(const KeyView& k) noexcept {
  return k.fence == 0 && k.holders.empty() && k.waiters.empty() && k.notes.empty();
}

KeyState state_of(const KeyView& k) noexcept {
  if (any(k, [](const HolderView& h) { return in_force(h) && !h.vanished; })) return KeyState::held;
  if (any(k, in_force)) return KeyState::delayed;
  if (!k.unknown_reason.empty()) return KeyState::unknown;
  return k.holders.empty() ? KeyState::free : KeyState::stale;
}

std::string_view state_name(KeyState s) noexcept {
  switch (s) {
    case KeyState::held: return "held";
    case KeyState::delayed: return "delayed";
    case KeyState::stale: return "stale";
    case KeyState::free: return "free";
    case KeyState::unknown: break;
  }
  return "?";
}

bool has_stale_holder(const KeyView& k) noexcept {
  return any(k, [&](const HolderView& h) {
    return (h.vanished || h.ended()) && !is_min_hold_remainder(k, h);
  });
}

bool is_min_hold_remainder(const KeyView& k, const HolderView& h) noexcept {
  return k.last_run && k.last_run->token == h.token && !h.attached;
}

std::string why_irrevocable(const KeyView& k, const HolderView& h) {
  if (is_min_hold_remainder(k, h)) return "its job has ended (--min-hold)";
  if (h.who.host.empty()) return "no dlock is recorded as its holder";
  if (h.who.kept_by == Identity::KeptBy::nobody)
    return fmt::format("{} left it to the store (acquire)", h.who.text());
  if (run::find_process(h.who) == run::Presence::ended)
    return fmt::format("the dlock of {} is no longer running", h.who.text());
  return {};
}

const HolderView* removable(const KeyView& k) {
  const auto found = std::ranges::find_if(
      k.holders, [](const HolderView& h) { return in_force(h) && h.stays_because.empty(); });
  return found == k.holders.end() ? nullptr : &*found;
}

// With some recipes the grants of other programs have no token.
std::string force_options(const HolderView& h) {
  return h.token ? fmt::format("--force --token {}", h.token) : "--force --yes";
}

std::size_t holding(const KeyView& k) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(k.holders, in_force));
}

std::string permits(const KeyView& k) {
  if (!any(k, [](const HolderView& h) { return h.mode == Mode::permit && in_force(h); })) return {};
  const auto all = limits(k);
  if (all.size() == 1) return fmt::format("{} of {} permits", holding(k), all.begin()->first);
  return fmt::format("{} permit{}", holding(k), holding(k) == 1 ? "" : "s");
}

void note_limits(KeyView& k) {
  std::erase_if(k.holders,
                [&](const HolderView& h) { return h.ended() && is_min_hold_remainder(k, h); });
  const auto all = limits(k);
  if (all.size() > 1) {
    std::string each;
    for (const auto& [limit, who] : all) add_part(each, fmt::format("{} by {}", limit, who));
    k.notes.push_back(fmt::format(
        "the limits differ ({}): each counts all holders against its own; use the same everywhere",
        each));
  }
  const bool beside =
      any(k, [](const HolderView& h) { return h.mode == Mode::shared && in_force(h); }) ||
      std::ranges::any_of(k.waiters, [](const WaiterView& w) { return w.mode == Mode::shared; });
  if (beside && !all.empty())
    k.notes.push_back("a --shared lock beside --limit counts as one of the permits");
}

std::optional<Duration> age(const Identity& i) {
  const std::int64_t now = wall_micros();
  if (i.since <= 0 || i.since > now) return std::nullopt;
  return Duration{now - i.since};
}

}  // namespace dlock::cli
