// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "core/error.hpp"

namespace dlock::file {

// Returns what errno means for the caller. `denied`: a permission is missing. `cannot_create`:
// there is no space, the filesystem is read-only, or the path is wrong. `exhausted`: this process
// has no free descriptors. Anything else (memory, I/O) is `unavailable`: nothing was changed.
// `what` names the operation that failed.
Error sys_error(std::string_view what, std::string_view path, int errnum);

inline tl::unexpected<Error> fail_errno(std::string_view what, std::string_view path, int errnum) {
  return tl::unexpected<Error>(sys_error(what, path, errnum));
}

}  // namespace dlock::file
