// SPDX-License-Identifier: Apache-2.0
#include "common/url_items.hpp"
#include <fmt/format.h>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock {

Result<void> can_list(std::string_view prefix) {
  if (!prefix.empty()) return {};
  return fail(Errc::usage, "without a prefix only a named key can be inspected: give a KEY");
}

std::string Endpoint::text() const {
  if (!socket.empty()) return socket;
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

void UrlItems::wrong(std::string_view item, std::string_view value, std::string_view allowed) {
  if (wrong_.empty()) wrong_ = fmt::format("{} is {}; allowed is {}", item, quoted(value), allowed);
}

Result<void> UrlItems::verdict() const {
  if (wrong_.empty()) return {};
  return fail(Errc::usage, fmt::format("backend URL {}: {}", quoted(url_.redacted(), 300), wrong_));
}

std::optional<std::string_view> UrlItems::only(std::string_view item, std::string_view recipes) {
  const auto given = text(item);
  if (given &&
      fmt::format(" {} ", recipes).find(fmt::format(" {} ", traits_.recipe)) == std::string::npos)
    wrong(item, *given, fmt::format("nothing but with recipe {}", recipes));
  return given;
}

std::optional<bool> UrlItems::yes_no(std::string_view item) {
  const auto given = text(item);
  if (given && *given != "yes" && *given != "no") wrong(item, *given, "yes or no");
  return given ? std::optional{*given == "yes"} : std::nullopt;
}

std::optional<unsigned> UrlItems::number(std::string_view item, unsigned most) {
  const auto given = text(item);
  return given ? number(item, *given, most) : std::nullopt;
}

std::optional<unsigned> UrlItems::number(std::string_view called, std::string_view digits,
                                         unsigned most) {
  if (const auto value = parse_number<unsigned>(digits); value && *value <= most) return value;
  wrong(called, digits, fmt::format("a number from 0 to {}", most));
  return std::nullopt;
}

std::optional<Duration> UrlItems::duration(std::string_view item, Duration least,
                                           std::string_view allowed) {
  const auto given = text(item);
  if (!given) return std::nullopt;
  const auto d = parse_duration(*given);
  if (d && *d >= least) return *d;
  wrong(item, *given, allowed);
  return std::nullopt;
}

StoreOptions UrlItems::store_options() const {
  return {settings_.op_timeout, settings_.connect_timeout, settings_.interrupt_fd, url_.redacted()};
}

std::string UrlItems::prefix(std::string_view native) const {
  return std::string{text("prefix").value_or(traits_.native ? native : "")};
}

std::string UrlItems::password() const {
  return !settings_.password.empty() ? settings_.password : url_.password;
}

std::optional<TlsOptions> UrlItems::tls(bool by_scheme, bool socket, std::string_view how) {
  const auto asked = yes_no("tls");
  const bool on = by_scheme || asked == true;
  if (by_scheme && asked == false) wrong("tls", "no", fmt::format("yes, with {}://", url_.scheme));
  if (on && socket) wrong("tls", "yes", "no, with a unix socket");
  const auto file = [&](std::string_view item, const std::string& setting) {
    const auto in_url = text(item);
    if (!on && in_url) wrong(item, *in_url, fmt::format("nothing without TLS: {}", how));
    return !setting.empty() ? setting : std::string{in_url.value_or("")};
  };
  TlsOptions made{file("tls_ca", settings_.tls_ca), file("tls_cert", settings_.tls_cert),
                  file("tls_key", settings_.tls_key), settings_.tls_insecure};
  return on ? std::optional{std::move(made)} : std::nullopt;
}

void UrlItems::no_tls(std::string_view allowed) {
  if (const auto asked = text("tls"); asked && *asked != "no") wrong("tls", *asked, allowed);
  for (const std::string* file : {&settings_.tls_ca, &settings_.tls_cert, &settings_.tls_key})
    if (!file->empty()) wrong("tls", *file, allowed);
}

}  // namespace dlock
