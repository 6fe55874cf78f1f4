// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "core/error.hpp"

namespace dlock::file {

// What errno means for the caller. No permission is `denied`; no space, or a read-only or wrong
// place, is `cannot_create`; no descriptors in this process is `exhausted`. Everything else
// (memory, an I/O error) is `unavailable`, because nothing was changed. `what` is the operation.
Error sys_error(std::string_view what, std::string_view path, int errnum);

inline tl::unexpected<Error> fail_errno(std::string_view what, std::string_view path, int errnum) {
  return tl::unexpected<Error>(sys_error(what, path, errnum));
}

}  // namespace dlock::file
