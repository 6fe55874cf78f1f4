// SPDX-License-Identifier: Apache-2.0
#include "core/url.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock {
namespace {

constexpr std::size_t longest_shown = 300;

bool is_hex(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool has_control(std::string_view text) noexcept {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_host_name(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

bool is_ipv6(std::string_view text) noexcept {
  const std::string_view address = text.substr(0, text.find('%'));  // without the zone
  return address.find(':') != address.npos &&
         std::ranges::all_of(address, [](char c) { return is_hex(c) || c == ':' || c == '.'; });
}

constexpr std::string_view hidden = "***";

bool is_secret_name(std::string_view name) {
  const std::string low = lower(name);
  if (low.ends_with("file")) return false;  // the path of a secret's file is not secret
  constexpr std::array<std::string_view, 6> words{"pass",  "pwd",        "secret",
                                                  "token", "credential", "auth"};
  return std::ranges::any_of(words,
                             [&](std::string_view word) { return low.find(word) != low.npos; });
}

// Redacts the hosts of a broken URL. If the '@' is missing, `user:password` looks like a host with
// an invalid port.
std::string redact_hosts(std::string_view hosts) {
  std::string out;
  while (!hosts.empty()) {
    const std::string_view host = next_until(hosts, ",");
    const std::size_t bracket = host.starts_with('[') ? host.find(']') : host.npos;
    const std::size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
    out += host.substr(0, colon);
    if (colon != host.npos) {
      const std::string_view port = host.substr(colon + 1);
      if (port.size() > 5 || !std::ranges::all_of(port, is_digit))
        return out.append(":").append(hidden);
      out.append(":").append(port);
    }
    if (hosts.empty()) break;
    out += ',';
    hosts.remove_prefix(1);
  }
  return out;
}

// Like percent_encode(), but the characters of `stay`, which are allowed in this part of a URL, are
// not encoded.
std::string encoded(std::string_view text, std::string_view stay) {
  std::string out;
  for (const char c : text) stay.find(c) != stay.npos ? out += c : out += percent_encode({&c, 1});
  return out;
}

// Redacts a URL that may be broken anywhere, for messages. It removes everything that could be a
// password, even if it removes too much.
std::string redact_broken(std::string_view text) {
  const std::size_t slashes = text.find("//");
  const bool authority = slashes != text.npos;
  const std::size_t from = authority ? slashes + 2 : text.find(':') + 1;  // 0 without a colon
  std::string out{text.substr(0, from)};
  std::string_view rest = text.substr(from);
  if (const std::size_t at = rest.rfind('@'); at != rest.npos) {
    const std::string_view user = rest.substr(0, authority ? std::min(at, rest.find(':')) : 0);
    out += user;
    if (user.size() < at) out.append(authority ? ":" : "").append(hidden);
    rest.remove_prefix(at);
  } else if (authority) {
    out += redact_hosts(next_until(rest, "/?#"));
  }
  out += next_until(rest, "?#");
  while (!rest.empty()) {
    out += rest.front();  // ? & or #
    rest.remove_prefix(1);
    const std::string_view item = next_until(rest, "&#");
    const std::size_t equals = item.find('=');
    const auto name = percent_decode(item.substr(0, equals));
    const bool hide = equals != item.npos && (!name || is_secret_name(*name));
    out += hide ? fmt::format("{}={}", item.substr(0, equals), hidden) : std::string{item};
  }
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Url> parse() {
    if (has_control(text_)) return bad("it has a control character");
    if (text_.find('#') != text_.npos) return bad("it has a fragment; write a '#' as %23");
    std::string_view rest = text_;
    const std::size_t colon = rest.find(':');
    if (rest.starts_with('/')) return bad("it has no scheme; a directory is file:/DIR");
    const bool slashes = rest.substr(std::min(colon, rest.size())).starts_with("://");
    if (colon == rest.npos || (!slashes && !is_letter(rest.front())))
      return bad(
          "it has no scheme; allowed is SCHEME:PATH or SCHEME://HOST, as in file:/DIR or "
          "redis://HOST");
    const std::string_view scheme = rest.substr(0, colon);
    const auto fits = [](char c) {
      return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
    };
    if (scheme.empty() || !is_letter(scheme.front()) || !std::ranges::all_of(scheme, fits))
      return bad("its scheme is not a letter followed by letters, digits, '+', '-' or '.'");
    url_.scheme = lower(scheme);
    rest.remove_prefix(colon + 1);

    if (rest.starts_with("//")) {
      rest.remove_prefix(2);
      authority(next_until(rest, "/?"));
    }
    url_.path = decoded(next_until(rest, "?"), "path");
    if (!rest.empty()) items(rest.substr(1));
    if (wrong_.empty()) return std::move(url_);
    const bool cut_password = url_.user.empty() && url_.path.find('@') != url_.path.npos;
    return bad(wrong_ + (cut_password ? "; write a '/' in a password as %2F" : ""));
  }

 private:
  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(Errc::usage, "backend URL {}: {}", quoted(redact_broken(text_), longest_shown),
                what);
  }
  // Keeps only the first error.
  void wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  std::string decoded(std::string_view part, std::string_view what) {
    auto out = percent_decode(part);
    if (!out) wrong(fmt::format("its {} has a '%' that is not followed by two hex digits", what));
    else if (has_control(*out)) wrong(fmt::format("its {} has a control character", what));
    return std::move(out).value_or("");
  }

  void authority(std::string_view text) {
    if (const std::size_t at = text.rfind('@'); at != text.npos) {
      const std::string_view user = text.substr(0, at);
      const std::size_t colon = user.find(':');
      url_.user = decoded(user.substr(0, colon), "user");
      if (colon != user.npos) url_.password = decoded(user.substr(colon + 1), "password");
      text.remove_prefix(at + 1);
    }
    if (text.empty()) return;
    while (true) {
      const std::size_t comma = text.find(',');
      host(text.substr(0, comma));
      if (comma == text.npos) return;
      text.remove_prefix(comma + 1);
    }
  }

  void host(std::string_view text) {
    Url::Host host;
    if (text.starts_with('[')) {
      const std::size_t end = text.find(']');
      if (end == text.npos) return wrong("a '[' has no ']'");
      host.name = decoded(text.substr(1, end - 1), "host");
      if (!is_ipv6(host.name)) return wrong("between '[' and ']' stands no IPv6 address");
      text.remove_prefix(end + 1);
      if (!text.empty() && text.front() != ':')
        return wrong("after ']' stands neither ':' nor ','");
    } else {
      host.name = next_until(text, ":");
      if (host.name.empty()) return wrong("a host is empty");
      if (lower(host.name).starts_with("%2f")) host.name = decoded(host.name, "host");
      else if (!is_host_name(host.name))
        return wrong("a host has something else than letters, digits, '.', '-' and '_'");
    }
    if (!text.empty()) host.port = port(text.substr(1));
    url_.hosts.push_back(std::move(host));
  }

  std::optional<std::uint16_t> port(std::string_view text) {
    const auto value = parse_number<std::uint16_t>(text);
    if (value.value_or(0) == 0) wrong("a port is not a number from 1 to 65535");
    return value;
  }

  void items(std::string_view text) {
    while (!text.empty()) {
      const std::string_view item = next_until(text, "&");
      if (!text.empty()) text.remove_prefix(1);
      const std::size_t equals = item.find('=');
      std::string name = decoded(item.substr(0, equals), "query");
      if (name.empty() || equals == item.npos)
        return wrong("its query is not NAME=VALUE&NAME=VALUE");
      std::string value = decoded(item.substr(equals + 1), "query");
      if (url_.item(name)) return wrong(fmt::format("item {} occurs twice", quoted(name)));
      url_.items.emplace_back(std::move(name), std::move(value));
    }
  }

  std::string_view text_;
  std::string wrong_;
  Url url_;
};

}  // namespace

Result<Url> Url::parse(std::string_view text) { return Parser{text}.parse(); }

bool is_host(std::string_view text) noexcept { return is_host_name(text) || is_ipv6(text); }

std::optional<std::string_view> Url::item(std::string_view name) const {
  for (const auto& [have, value] : items)
    if (have == name) return value;
  return std::nullopt;
}

std::string Url::redacted() const {
  std::string out = scheme + ":";
  if (!hosts.empty() || !user.empty() || !password.empty() || path.starts_with('/')) out += "//";
  out += encoded(user, "");
  if (!password.empty()) out.append(":").append(hidden);
  if (!user.empty() || !password.empty()) out += '@';
  for (const Host& host : hosts) {
    if (&host != &hosts.front()) out += ',';
    const bool brackets = host.name.find(':') != host.name.npos && host.name.front() != '/';
    out += brackets ? fmt::format("[{}]", encoded(host.name, ":")) : encoded(host.name, "");
    if (host.port) out += fmt::format(":{}", *host.port);
  }
  // If the scheme is missing, `user:password@host` parses as the scheme `user` with a path.
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
