// SPDX-License-Identifier: Apache-2.0
// The record of the last run of a job under a key. `inspect` shows it to people; dlock makes no
// decision from it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include "core/identity.hpp"
#include "core/lease.hpp"

namespace dlock {

struct LastRun {
  FencingToken token = 0;
  std::int64_t ended = 0;  // the time of release, by the store's clock in microseconds since 1970
  RunEnd end;
  std::int64_t started = 0;  // the time of the grant, by the same clock
  Identity who;

  // Returns "token ended status started who", with `between` between the parts. parse() returns
  // nullopt for a malformed text.
  std::string text(char between) const;
  static std::optional<LastRun> parse(std::string_view, char between);
};

}  // namespace dlock
