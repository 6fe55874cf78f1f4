// SPDX-License-Identifier: Apache-2.0
#include "cli/secrets.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "core/key.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest = 4096;

// The first line of a file that only its owner may read.
Result<std::string> read_secret(const Options& o, std::string_view option, std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return fail(Errc::config, fmt::format("{} {}: {}", called(o, option), quoted(path), why));
  };
  const Fd fd(
      ::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd)
    return refuse(errno == ELOOP ? "is a symbolic link, which is not followed"
                                 : ::strerrordesc_np(errno));
  if (const std::string why = distrust(fd.get(), {.forbidden = Trust::others_any}); !why.empty())
    return refuse(why);
  std::array<char, longest + 1> text;
  const ssize_t n = ::pread(fd.get(), text.data(), text.size(), 0);
  if (n < 0) return refuse(::strerrordesc_np(errno));
  std::string secret(text.data(), static_cast<std::size_t>(n));
  ::explicit_bzero(text.data(), text.size());
  if (secret.size() > longest) return refuse("is longer than a secret can be");
  secret.resize(std::min(secret.find_first_of("\r\n"), secret.size()));
  if (secret.empty()) return refuse("its first line is empty");
  return secret;
}

}  // namespace

Result<Secrets> find_secrets(const Options& o, const Url& url) {
  Secrets s;
  s.tls_ca = o.tls_ca;
  s.tls_cert = o.tls_cert;
  s.tls_key = o.tls_key;
  s.tls_insecure = o.tls_insecure;
  if (!o.auth_file.empty()) {
    auto auth = read_secret(o, "auth-file", o.auth_file);
    if (!auth) return fail(auth.error());
    if (const auto colon = auth->find(':');
        colon == 0 || colon == std::string::npos || colon + 1 == auth->size())
      return fail(Errc::config, fmt::format("{} {}: its first line is not SCHEME:CREDENTIAL",
                                            called(o, "auth-file"), quoted(o.auth_file)));
    s.auth = std::move(*auth);
  }
  // NOLINT(concurrency-mt-unsafe): no thread exists
  const char* password = std::getenv("DLOCK_PASSWORD");
  const bool by_flag = given_by_flag(o, "password-file");
  if (!by_flag && (!url.password.empty() || password)) {
    if (url.password.empty()) s.password = password;
  } else if (!o.password_file.empty()) {
    auto read = read_secret(o, "password-file", o.password_file);
    if (!read) return fail(read.error());
    s.password = std::move(*read);
  }
  return s;
}

}  // namespace dlock::cli
