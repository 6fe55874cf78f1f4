// SPDX-License-Identifier: Apache-2.0
#include "common/url_items.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "util/secret_file.hpp"

namespace dlock {
namespace {

bool contains(std::string_view list, std::string_view name) {
  while (!list.empty())
    if (next_part(list, ' ') == name) return true;
  return false;
}

bool fits(const UrlItem& row, std::string_view value) {
  switch (row.type) {
    case UrlItem::text: break;
    case UrlItem::yes_no: return value == "yes" || value == "no";
    case UrlItem::choice: return contains(row.range, value);
    case UrlItem::identifier: return is_identifier(value);
    case UrlItem::host: return is_host(value);
    case UrlItem::number: {
      const auto number = parse_number<unsigned>(value);
      return number && number <= parse_number<unsigned>(row.range);
    }
    case UrlItem::duration: {
      const auto duration = parse_duration(value);
      return duration && *duration >= parse_duration(row.range).value_or(Duration{1});
    }
  }
  return true;
}

std::string allowed(const UrlItem& row) {
  if (row.type == UrlItem::yes_no) return "yes or no";
  if (row.type == UrlItem::number) return fmt::format("a number from 0 to {}", row.range);
  if (row.type == UrlItem::identifier) return "a name of letters, digits, _ and $, at most 64 long";
  if (row.type == UrlItem::host) return "the name of a host or an address";
  return std::string{row.allowed};
}

}  // namespace

bool is_identifier(std::string_view s) noexcept {
  const auto fits = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; };
  return !s.empty() && s.size() <= 64 && std::ranges::all_of(s, fits);
}

bool is_on_loopback(const Url& url) {
  return std::ranges::all_of(url.hosts, [](const Url::Host& h) {
    return h.name == "localhost" || h.name == "::1" || h.name.starts_with("127.");
  });
}

bool asks_for_tls(const Url& url) { return url.item("tls").value_or("no") != "no"; }

Result<void> can_list(std::string_view prefix) {
  if (!prefix.empty()) return {};
  return fail(Errc::usage, "without a prefix only a named key can be inspected: give a KEY");
}

std::string Endpoint::text() const {
  if (!socket.empty()) return socket;
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

bool LoginOptions::read_password_again() {
  const bool is_new = Login::read_password_again();
  return sentinels.read_password_again() || is_new;
}

bool Login::read_password_again() {
  if (password_file.empty()) return false;
  auto now = read_secret(password_file);
  if (!now || now->text == password) return false;
  password = std::move(now->text);
  return true;
}

UrlItems::UrlItems(std::span<const UrlItem> rows, const Url& url, const Traits& traits,
                   const Settings& settings)
    : rows_(rows), url_(url), traits_(traits), settings_(settings) {
  for (const auto& [item, value] : url.items)
    for (const UrlItem& row : rows) {
      if (!row.covers(item)) continue;
      if (!row.elsewhere.empty() && !url.scheme.ends_with("+unix"))
        wrong(
            item, value,
            fmt::format("an item of {}+unix only; others write {}", traits.family, row.elsewhere));
      if (!row.recipes.empty() && !contains(row.recipes, traits.recipe))
        wrong(item, value, fmt::format("nothing but with recipe {}", row.recipes));
      judge(row, item, value);
    }
}

void UrlItems::judge(const UrlItem& row, std::string_view called, std::string_view value) {
  if (!fits(row, value)) wrong(called, value, allowed(row));
}

void UrlItems::wrong(std::string_view item, std::string_view value, std::string_view allowed) {
  const std::string what = value.empty() ? "missing" : quoted(value);
  if (wrong_.empty()) wrong_ = fmt::format("{} is {}; allowed is {}", item, what, allowed);
}

Result<void> UrlItems::verdict() const {
  if (wrong_.empty()) return {};
  return fail(Errc::usage, "backend URL {}: {}", quoted(url_.redacted(), 300), wrong_);
}

std::string_view UrlItems::text(std::string_view item) const {
  if (const auto given = url_.item(item)) return *given;
  for (const UrlItem& row : rows_)
    if (row.covers(item)) return row.usual;
  return {};
}

unsigned UrlItems::number(std::string_view item) const {
  return parse_number<unsigned>(text(item)).value_or(0);
}

std::optional<Duration> UrlItems::duration(std::string_view item) const {
  const auto value = parse_duration(text(item));
  return value ? std::optional{*value} : std::nullopt;
}

StoreOptions UrlItems::store_options() const {
  return {settings_.op_timeout, settings_.connect_timeout, settings_.interrupt_fd, url_.redacted(),
          is_on_loopback(url_)};
}

LoginOptions UrlItems::login_options() const {
  return {store_options(), {url_.user, password(), settings_.password_file}};
}

std::string UrlItems::prefix(std::string_view native) const {
  return std::string{url_.item("prefix").value_or(traits_.native ? native : "")};
}

std::string UrlItems::password() const {
  return !settings_.password.empty() ? settings_.password : url_.password;
}

std::optional<TlsOptions> UrlItems::tls(bool by_scheme, bool socket, std::string_view how,
                                        const TlsOptions& usual) {
  const bool on = by_scheme || asks_for_tls(url_);
  if (by_scheme && text("tls") == "no")
    wrong("tls", "no", fmt::format("yes, with {}://", url_.scheme));
  if (on && socket) wrong("tls", text("tls"), "no, with a unix socket");
  const auto value = [&](std::string_view item, const std::string& setting,
                         const std::string& otherwise) {
    const auto in_url = url_.item(item);
    if (!on && in_url) wrong(item, *in_url, fmt::format("nothing without TLS: {}", how));
    return !setting.empty() ? setting : std::string{in_url.value_or(otherwise)};
  };
  TlsOptions made{value("tls_ca", settings_.tls_ca, usual.ca),
                  value("tls_cert", settings_.tls_cert, usual.cert),
                  value("tls_key", settings_.tls_key, usual.key),
                  value("tls_name", settings_.tls_name, "")};
  if (text("tls") == "verify-ca") made.verify = TlsOptions::Verify::chain;
  // Without ?tls_ca=, a server with a certificate from any authority of the system would be
  // accepted.
  if (made.verify == TlsOptions::Verify::chain && made.ca.empty())
    wrong("tls", "verify-ca", "yes, or verify-ca beside --tls-ca");
  if (settings_.tls_insecure) made.verify = TlsOptions::Verify::nothing;
  return on ? std::optional{std::move(made)} : std::nullopt;
}

}  // namespace dlock
