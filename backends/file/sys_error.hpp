// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "core/error.hpp"

namespace dlock::file {

// Returns what errno means for the caller: `denied` if a permission is missing; `cannot_create` if
// there is no space, or a read-only or wrong place; `exhausted` if this process has no descriptors.
// All else (memory, I/O) is `unavailable`: nothing was changed. `what`: the operation.
Error sys_error(std::string_view what, std::string_view path, int errnum);

inline tl::unexpected<Error> fail_errno(std::string_view what, std::string_view path, int errnum) {
  return tl::unexpected<Error>(sys_error(what, path, errnum));
}

}  // namespace dlock::file
