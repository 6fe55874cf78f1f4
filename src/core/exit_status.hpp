// SPDX-License-Identifier: Apache-2.0
// The exit statuses of dlock, in one table.
#pragma once
#include <span>
#include <string_view>
#include "core/error.hpp"

namespace dlock {

enum Status : int {
  status_ok = 0,
  status_stale = 1,
  status_usage = 64,
  status_unavailable = 69,
  status_bug = 70,
  status_cannot_create = 73,
  status_busy = 75,
  status_denied = 77,
  status_config = 78,
  status_revoked = 122,
  status_lost = 123,
  status_max_run = 124,
  status_failed_holding = 125,
  status_cannot_execute = 126,
  status_not_found = 127,
};

struct ExitStatus {
  Status code;
  std::string_view name, meaning;  // the name for programs, the meaning for --help
};

std::span<const ExitStatus> exit_statuses() noexcept;  // in the order of their codes
Status exit_status(Errc) noexcept;

}  // namespace dlock
