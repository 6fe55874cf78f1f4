// SPDX-License-Identifier: Apache-2.0
#include "core/url_redact.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include "core/text.hpp"
#include "core/url.hpp"

namespace dlock {
namespace {

constexpr std::string_view hidden = "***";

bool is_secret_name(std::string_view name) {
  const std::string low = lower(name);
  if (low.ends_with("file")) return false;  // a path says where the secret is, not what it is
  constexpr std::array<std::string_view, 6> words{"pass",  "pwd",        "secret",
                                                  "token", "credential", "auth"};
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return low.find(word) != low.npos; });
}

// The hosts of a broken URL: from the first invalid port on it may be `user:password` without its
// '@'.
std::string redact_hosts(std::string_view hosts) {
  std::string out;
  while (!hosts.empty()) {
    const std::string_view host = take_until(hosts, ",");
    const std::size_t bracket = host.starts_with('[') ? host.find(']') : host.npos;
    const std::size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
    out += host.substr(0, colon);
    if (colon != host.npos) {
      const std::string_view port = host.substr(colon + 1);
      if (port.size() > 5 || !std::all_of(port.begin(), port.end(), is_digit))
        return out.append(":").append(hidden);
      out.append(":").append(port);
    }
    if (!hosts.empty()) out += ',', hosts.remove_prefix(1);
  }
  return out;
}

// As percent_encode, but characters allowed in that part of a URL stay readable.
std::string encoded(std::string_view text, std::string_view stay) {
  std::string out;
  for (const char c : text) stay.find(c) != stay.npos ? out += c : out += percent_encode({&c, 1});
  return out;
}

}  // namespace

std::string redact_broken(std::string_view text) {
  const std::size_t slashes = text.find("//");
  const bool authority = slashes != text.npos;
  const std::size_t from = authority ? slashes + 2 : text.find(':') + 1;  // no colon: 0
  std::string out{text.substr(0, from)};
  std::string_view rest = text.substr(from);
  if (const std::size_t at = rest.rfind('@'); at != rest.npos) {
    const std::string_view user = rest.substr(0, authority ? std::min(at, rest.find(':')) : 0);
    out += user;
    if (user.size() < at) out.append(authority ? ":" : "").append(hidden);
    rest.remove_prefix(at);
  } else if (authority) {
    out += redact_hosts(take_until(rest, "/?#"));
  }
  out += take_until(rest, "?#");
  while (!rest.empty()) {
    out += rest.front();  // ? & or #
    rest.remove_prefix(1);
    const std::string_view item = take_until(rest, "&#");
    const std::size_t equals = item.find('=');
    const auto name = percent_decode(item.substr(0, equals));
    const bool hide = equals != item.npos && (!name || is_secret_name(*name));
    out += hide ? fmt::format("{}={}", item.substr(0, equals), hidden) : std::string{item};
  }
  return out;
}

std::string Url::redacted() const {
  std::string out = scheme + ":";
  if (!hosts.empty() || !user.empty() || !password.empty() || path.starts_with('/')) out += "//";
  out += encoded(user, "");
  if (!password.empty()) out.append(":").append(hidden);
  if (!user.empty() || !password.empty()) out += '@';
  for (const Host& host : hosts) {
    if (&host != &hosts.front()) out += ',';
    const bool brackets = host.name.find(':') != host.name.npos;
    out += brackets ? fmt::format("[{}]", encoded(host.name, ":")) : host.name;
    if (host.port) out += fmt::format(":{}", *host.port);
  }
  // `user:password@host` without the scheme parses as a scheme with a path.
  const std::size_t at = path.starts_with('/') || !hosts.empty() ? path.npos : path.rfind('@');
  if (at != path.npos) out += hidden;
  out += encoded(std::string_view{path}.substr(at == path.npos ? 0 : at), "/:@,+=~");
  for (const auto& [name, value] : items) {
    out += &name == &items.front().first ? '?' : '&';
    out.append(encoded(name, ""))
        .append("=")
        .append(is_secret_name(name) ? std::string{hidden} : encoded(value, "/:@,+~"));
  }
  return out;
}

}  // namespace dlock
