// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include "core/error.hpp"
#include "util/fd.hpp"

namespace dlock::cli {

// A pidfd of whoever a kept lock is for: `pid`, or the leader of our process group when it is an ancestor, else our parent. Beyond the reuse
// of process numbers: it is opened, and then seen to be the process that was meant. Errc::usage: there is no such process.
Result<Fd> open_caller(std::optional<int> pid);

}  // namespace dlock::cli
