// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/key_state.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

bool over(const HolderView& h) noexcept { return h.remaining && *h.remaining <= 0us; }

}  // namespace

KeyView free_key(const Key& key) {
  KeyView k;
  k.key = key.text();
  return k;
}

bool never_taken(const KeyView& k) noexcept {
  return k.fence == 0 && k.holders.empty() && k.waiters.empty() && k.notes.empty();
}

KeyState state_of(const KeyView& k) noexcept {
  const auto any = [&](auto is) { return std::any_of(k.holders.begin(), k.holders.end(), is); };
  if (any([](const HolderView& h) { return !h.vanished && !over(h); })) return KeyState::held;
  if (any([](const HolderView& h) { return h.vanished && !over(h); })) return KeyState::delayed;
  return k.holders.empty() ? KeyState::free : KeyState::stale;
}

std::string_view state_name(KeyState s) noexcept {
  switch (s) {
    case KeyState::held: return "held";
    case KeyState::delayed: return "delayed";
    case KeyState::stale: return "stale";
    case KeyState::free: return "free";
  }
  return "?";
}

bool has_stale_holder(const KeyView& k) noexcept {
  return std::any_of(k.holders.begin(), k.holders.end(),
                     [](const HolderView& h) { return h.vanished || over(h); });
}

std::optional<Duration> age(const Identity& i) {
  const std::int64_t now = wall_micros();
  if (i.since <= 0 || i.since > now) return std::nullopt;
  return Duration{now - i.since};
}

}  // namespace dlock::cli
