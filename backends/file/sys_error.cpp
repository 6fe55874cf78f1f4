// SPDX-License-Identifier: Apache-2.0
#include "file/sys_error.hpp"
#include <fmt/format.h>
#include <cerrno>
#include <cstring>
#include "core/text.hpp"

namespace dlock::file {
namespace {

Errc code_of(int errnum) noexcept {
  switch (errnum) {
    case EACCES:
    case EPERM:
    case ELOOP: return Errc::denied;
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EFBIG:
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: return Errc::cannot_create;
    case EMFILE: return Errc::exhausted;
    default: return Errc::unavailable;
  }
}

}  // namespace

Error sys_error(std::string_view what, std::string_view path, int errnum) {
  const char* text = ::strerrordesc_np(errnum);
  const char* hint = errnum == EMFILE ? " (ulimit -n)" : errnum == EFBIG ? " (ulimit -f)" : "";
  return {code_of(errnum),
          fmt::format("{} {}: {}{}", what, printable(path), text ? text : "unknown error", hint)};
}

}  // namespace dlock::file
