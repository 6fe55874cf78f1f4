// SPDX-License-Identifier: Apache-2.0
#include "cli/secrets.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "core/text.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest_secret = 4096;

// The first line of a file that only its owner may read.
Result<std::string> read_secret(std::string_view called, std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return fail(Errc::config, fmt::format("{} {}: {}", called, quoted(path), why));
  };
  const Fd fd(
      ::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd)
    return refuse(errno == ELOOP ? "is a symbolic link, which is not followed"
                                 : ::strerrordesc_np(errno));
  if (const std::string why = distrust(fd.get(), {.forbidden = Trust::others_any}); !why.empty())
    return refuse(why);
  std::array<char, longest_secret + 1> text;
  const ssize_t n = ::pread(fd.get(), text.data(), text.size(), 0);
  if (n < 0) return refuse(::strerrordesc_np(errno));
  std::string secret(text.data(), static_cast<std::size_t>(n));
  ::explicit_bzero(text.data(), text.size());
  if (secret.size() > longest_secret) return refuse("is longer than a secret can be");
  secret.resize(std::min(secret.find_first_of("\r\n"), secret.size()));
  if (secret.empty()) return refuse("its first line is empty");
  return secret;
}

}  // namespace

SecretFiles take_secret_files(Url& url) {
  SecretFiles files;
  std::erase_if(url.items, [&](const auto& item) {
    if (item.first == "password_file") return files.password = item.second, true;
    if (item.first == "auth_file") return files.auth = item.second, true;
    return false;
  });
  return files;
}

Result<Secrets> find_secrets(const Options& o, const Url& url, const SecretFiles& files) {
  Secrets s;
  s.tls_ca = o.tls_ca;
  s.tls_cert = o.tls_cert;
  s.tls_key = o.tls_key;
  s.tls_insecure = o.tls_insecure;
  // A flag, then the URL, then the rest.
  const auto file = [&](std::string_view option, std::string_view item, std::string_view of_url,
                        std::string_view of_option) {
    const bool url_decides = !of_url.empty() && !given_by_flag(o, option);
    return url_decides ? std::pair{fmt::format("{}: {}", called(o, "backend"), item), of_url}
                       : std::pair{called(o, option), of_option};
  };
  if (const auto [name, path] = file("auth-file", "auth_file", files.auth, o.auth_file);
      !path.empty()) {
    auto auth = read_secret(name, path);
    if (!auth) return fail(auth.error());
    if (const auto colon = auth->find(':');
        colon == 0 || colon == std::string::npos || colon + 1 == auth->size())
      return fail(Errc::config, fmt::format("{} {}: its first line is not SCHEME:CREDENTIAL", name,
                                            quoted(path)));
    s.auth = std::move(*auth);
  }
  // NOLINT(concurrency-mt-unsafe): no thread exists
  const char* password = std::getenv("DLOCK_PASSWORD");
  const auto [name, path] = file("password-file", "password_file", files.password, o.password_file);
  const bool named = given_by_flag(o, "password-file") || !files.password.empty();
  if (!named && (!url.password.empty() || password)) {
    if (url.password.empty()) s.password = password;
  } else if (!path.empty()) {
    auto read = read_secret(name, path);
    if (!read) return fail(read.error());
    s.password = std::move(*read);
  }
  return s;
}

}  // namespace dlock::cli
