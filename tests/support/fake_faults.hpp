// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include "store/backend.hpp"

namespace dlock::fake {

enum class RequestKind { none, acquire, renew, release, note };

// The faults of fake_backend.hpp, as read from a URL.
struct Faults {
  Duration grant_after{}, drip{}, patience{1'000'000};
  std::optional<std::uint64_t> hang_after, hang_wait, throw_after, lost_after, renew_fails_after;
  bool hang_release = false, broken = false;
  RequestKind lose = RequestKind::none;
  std::optional<Errc> fail_open;

  static Result<Faults> parse(const Url&);
};

void sleep_for(Duration);  // in short slices; no signal shortens it
[[noreturn]] void hang();

}  // namespace dlock::fake
