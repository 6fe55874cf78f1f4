// SPDX-License-Identifier: Apache-2.0
#include "util/secret_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include "core/text.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"

namespace dlock {
namespace {

constexpr std::size_t longest_secret = 4096;

tl::unexpected<Error> refuse(const std::string& path, std::string_view why) {
  return fail(Errc::config, fmt::format("{}: {}", quoted(path), why));
}

}  // namespace

Result<std::string> read_secret(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd)
    return refuse(path, errno == ELOOP ? "is a symbolic link, which is not followed"
                                       : ::strerrordesc_np(errno));
  if (const std::string why = distrust(fd.get(), {.forbidden = Trust::others_any}); !why.empty())
    return refuse(path, why);
  std::array<char, longest_secret + 1> text;
  const ssize_t n = ::pread(fd.get(), text.data(), text.size(), 0);
  if (n < 0) return refuse(path, ::strerrordesc_np(errno));
  std::string secret(text.data(), static_cast<std::size_t>(n));
  ::explicit_bzero(text.data(), text.size());
  if (secret.size() > longest_secret) return refuse(path, "is longer than a secret can be");
  secret.resize(std::min(secret.find_first_of("\r\n"), secret.size()));
  if (secret.empty()) return refuse(path, "its first line is empty");
  return secret;
}

Result<std::string> read_credential(const std::string& path) {
  auto text = read_secret(path);
  if (!text) return text;
  if (const auto colon = text->find(':');
      colon == 0 || colon == std::string::npos || colon + 1 == text->size())
    return refuse(path, "its first line is not SCHEME:CREDENTIAL, as in digest:user:password");
  return text;
}

}  // namespace dlock
