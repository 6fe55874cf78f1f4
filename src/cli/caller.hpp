// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include "core/error.hpp"
#include "util/fd.hpp"

namespace dlock::cli {

// A pidfd of the process for which the lock is kept: `pid`, or the leader of our process group when
// it is an ancestor, else our parent. Safe against reuse of pids: the process is opened first, then
// checked. Errc::usage: there is no such process.
Result<Fd> open_caller(std::optional<int> pid);

}  // namespace dlock::cli
