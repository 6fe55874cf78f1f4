// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/my_cnf.hpp"
#include <fcntl.h>
#include <sys/stat.h>
#include <cerrno>
#include <cstring>
#include "core/text.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"

namespace dlock::mysql {
namespace {

constexpr std::size_t largest = 65536;

std::string_view trimmed(std::string_view s) noexcept {
  constexpr std::string_view blank = " \t\r\v\f";
  const auto from = s.find_first_not_of(blank);
  if (from == s.npos) return {};
  return s.substr(from, s.find_last_not_of(blank) - from + 1);
}

// Reads a value as the MySQL programs do: quotes around the value are removed;  \t \\ \s \" \' are
// escapes; outside of quotes, # starts a comment.
std::string value_of(std::string_view text) {
  text = trimmed(text);
  std::string out;
  const char quote =
      !text.empty() && (text.front() == '"' || text.front() == '\'') ? text.front() : '\0';
  if (quote) text.remove_prefix(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote ? c == quote : c == '#') break;
    if (c != '\\' || i + 1 == text.size()) {
      out += c;
      continue;
    }
    switch (const char escaped = text[++i]) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case 'b': out += '\b'; break;
      case 's': out += ' '; break;
      case '\\':
      case '"':
      case '\'': out += escaped; break;
      default: (out += '\\') += escaped;
    }
  }
  return quote ? out : std::string{trimmed(out)};
}

}  // namespace

ClientDefaults parse_client_defaults(std::string_view text) {
  ClientDefaults d;
  bool ours = false;
  while (!text.empty()) {
    const auto line = trimmed(next_part(text, '\n'));
    if (line.empty() || line.front() == '#' || line.front() == ';' || line.front() == '!') continue;
    if (line.front() == '[') {
      const auto group = line.substr(1, line.find(']') - 1);
      ours = group == "client" || group == "client-mariadb" || group == "client-server";
      continue;
    }
    const auto equals = line.find('=');
    if (!ours || equals == line.npos) continue;
    std::string name{trimmed(line.substr(0, equals))};
    for (char& c : name)
      if (c == '_') c = '-';
    for (const auto& [known, to] : {std::pair{"user", &d.user},
                                    {"password", &d.password},
                                    {"ssl-ca", &d.ssl_ca},
                                    {"ssl-cert", &d.ssl_cert},
                                    {"ssl-key", &d.ssl_key}})
      if (name == known) *to = value_of(line.substr(equals + 1));
  }
  return d;
}

Result<ClientDefaults> client_defaults_from(const std::string& path) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return ClientDefaults{};
    return fail(Errc::config, "{}: {}", printable(path), std::strerror(errno));
  }
  struct stat s {};
  if (::fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode)) return ClientDefaults{};
  if (const std::string why = why_untrusted(fd.get(), {.forbidden = Trust::others_write});
      !why.empty())
    return fail(Errc::config, "{}: {}", printable(path), why);
  std::string text(largest, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n < 0) return fail(Errc::config, "{}: {}", printable(path), std::strerror(errno));
  text.resize(static_cast<std::size_t>(n));
  auto found = parse_client_defaults(text);
  if (found.password && (s.st_mode & (S_IRGRP | S_IROTH)) != 0)
    return fail(Errc::config, "{}: it holds a password, and others may read it (chmod 600)",
                printable(path));
  return found;
}

Result<ClientDefaults> client_defaults() {
  const std::string at = home_directory();
  return at.empty() ? Result<ClientDefaults>{ClientDefaults{}}
                    : client_defaults_from(at + "/.my.cnf");
}

}  // namespace dlock::mysql
