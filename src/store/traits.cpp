// SPDX-License-Identifier: Apache-2.0
#include "store/traits.hpp"
#include <fmt/format.h>

namespace dlock {

std::optional<Refusal> refusal(const Traits& t, const Request& r) {
  const auto no = [&](std::string_view option, std::string_view what) {
    return Refusal{option, fmt::format("recipe {} of {} {}", t.recipe, t.family, what)};
  };
  if (r.mode == Mode::shared && !t.shared) return no("shared", "has no shared locks");
  if (r.mode == Mode::permit && !t.permits) return no("limit", "has no permits");
  if (r.mode == Mode::permit && r.limit == 0)
    return Refusal{"limit", "0 allows no holder; at least 1 is allowed"};
  if (r.lock_delay > Duration{} && !t.lock_delay) return no("lock-delay", "has no lock-delay");
  if (!r.attached && !t.detached) return no("recipe", "has no lock that outlives its process");
  const bool has_ttl = t.liveness != Liveness::process || !r.attached;
  if (has_ttl && r.ttl <= Duration{}) return Refusal{"ttl", "must be longer than 0"};
  return std::nullopt;
}

Result<void> can_serve(const Traits& t, const Request& r) {
  const auto refused = refusal(t, r);
  return refused ? fail(Errc::usage, "--{}: {}", refused->option, refused->why) : Result<void>{};
}

}  // namespace dlock
