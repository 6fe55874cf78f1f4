// SPDX-License-Identifier: Apache-2.0
#include "mysql/options.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include "core/duration.hpp"
#include "core/key.hpp"
#include "mysql/my_cnf.hpp"

namespace dlock::mysql {
namespace {

// Names of tables and columns go into statements between backquotes; only what needs none can be given.
bool identifier(std::string_view s) noexcept {
  return !s.empty() && s.size() <= 64 && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
  });
}

class Parser {
 public:
  Parser(const Url& url, const Traits& traits, const Settings& settings) : url_(url), traits_(traits), settings_(settings) {}

  Result<Options> parse() {
    made_.op_timeout = settings_.op_timeout;
    made_.connect_timeout = settings_.connect_timeout;
    made_.interrupt_fd = settings_.interrupt_fd;
    made_.where_text = url_.redacted();
    made_.prefix = url_.item("prefix").value_or(traits_.native ? "dlock:" : "");
    if (made_.prefix.size() > 50) wrong("prefix", made_.prefix, "at most 50 bytes");
    servers();
    auto defaults = client_defaults();
    if (!defaults) return fail(std::move(defaults.error()));
    login(*defaults);
    tls(*defaults);
    made_.plugin_dir = url_.item("plugin_dir").value_or("");
    recipe_items();
    if (!wrong_.empty()) return fail(Errc::usage, fmt::format("backend URL {}: {}", quoted(url_.redacted(), 300), wrong_));
    return std::move(made_);
  }

 private:
  void wrong(std::string_view item, std::string_view value, std::string_view allowed) {
    if (wrong_.empty()) wrong_ = fmt::format("{} is {}; allowed is {}", item, quoted(value), allowed);
  }

  void servers() {
    if (url_.scheme == "mysql+unix") {
      if (!url_.hosts.empty()) wrong("host", url_.hosts.front().name, "none: mysql+unix:///PATH?db=DB has three slashes");
      if (url_.path.size() < 2)
        wrong("path", url_.path, "the path of a socket, as in mysql+unix:///run/mysqld/mysqld.sock?db=DB");
      made_.servers.push_back({.host = {}, .port = 0, .socket = url_.path});
      made_.database = url_.item("db").value_or("");
      if (made_.database.empty()) wrong("db", "", "the name of a database, as in mysql+unix:///run/mysqld/mysqld.sock?db=DB");
    } else {
      if (url_.item("db")) wrong("db", *url_.item("db"), "an item of mysql+unix only; others write /DB behind the host");
      if (url_.hosts.empty()) wrong("host", "", "a host, as in mysql://HOST[:PORT]/DB");
      for (const auto& h : url_.hosts) made_.servers.push_back({h.name, h.port.value_or(3306), {}});
      if (made_.servers.size() > 1 && !traits_.native)
        wrong("host", fmt::format("{} hosts", made_.servers.size()),
              "one: only recipe lease excludes across the nodes of a cluster");
      if (!url_.path.empty()) made_.database = url_.path.substr(1);
      if (made_.database.empty()) wrong("database", "", "the name of a database behind the host, as in mysql://HOST/DB");
    }
    if (made_.database.size() > 64) wrong("database", made_.database, "at most 64 characters");
  }

  void login(const ClientDefaults& defaults) {
    made_.user = !url_.user.empty() ? url_.user : defaults.user.value_or("");
    made_.password = !settings_.password.empty() ? settings_.password : url_.password;
    if (!made_.password.empty()) return;
    const char* own = std::getenv("MYSQL_PWD");
    if (own && *own) made_.password = own;
    // The file's password is that of the file's user.
    else if (!defaults.user || *defaults.user == made_.user) made_.password = defaults.password.value_or("");
  }

  void tls(const ClientDefaults& defaults) {
    const auto asked = url_.item("tls");
    if (asked && *asked != "yes" && *asked != "no") wrong("tls", *asked, "yes or no");
    made_.tls = asked == "yes";
    if (made_.tls && url_.scheme == "mysql+unix") wrong("tls", *asked, "no, with a unix socket");
    const auto file = [&](std::string_view item, const std::string& setting, const std::optional<std::string>& own) {
      const auto in_url = url_.item(item);
      if (in_url && !made_.tls) wrong(item, *in_url, "nothing without TLS: add tls=yes");
      if (!setting.empty()) return setting;
      return in_url ? std::string{*in_url} : made_.tls ? own.value_or("") : "";
    };
    made_.tls_ca = file("tls_ca", settings_.tls_ca, defaults.ssl_ca);
    made_.tls_cert = file("tls_cert", settings_.tls_cert, defaults.ssl_cert);
    made_.tls_key = file("tls_key", settings_.tls_key, defaults.ssl_key);
    made_.tls_verify = !settings_.tls_insecure;
  }

  std::optional<std::string_view> only(std::string_view item, std::string_view recipes) {
    const auto text = url_.item(item);
    if (text && recipes.find(traits_.recipe) == recipes.npos)
      wrong(item, *text, fmt::format("nothing but with recipe {}", recipes));
    return text;
  }
  std::string name(std::string_view item, std::string_view recipes) {
    const auto text = only(item, recipes);
    if (text && !identifier(*text)) wrong(item, *text, "a name of letters, digits, _ and $, at most 64 long");
    return std::string{text.value_or("")};
  }

  void recipe_items() {
    if (const auto text = only("wake", "lease")) {
      made_.poll = *text == "poll";
      if (*text != "poll" && *text != "named") wrong("wake", *text, "named or poll");
    }
    if (const auto text = only("clock_skew", "lease")) {
      const auto d = parse_duration(*text);
      if (d) made_.clock_skew = *d;
      else wrong("clock_skew", *text, "a duration such as 2s");
    }
    made_.table = name("table", "for-update insert version");
    made_.key_column = name("key_column", "for-update");
    if (made_.key_column.empty() != (made_.table.empty() || traits_.recipe != "for-update"))
      wrong("key_column", made_.key_column, "a column of ?table=, always together with it");
    if (const auto text = only("stale_after", "insert")) {
      const auto d = parse_duration(*text);
      if (d && *d >= std::chrono::seconds{1}) made_.stale_after = *d;
      else wrong("stale_after", *text, "a duration of 1s or more, such as 1h");
    }
    for (const auto& [item, value] : url_.items) {
      if (!item.starts_with("where.")) continue;
      const std::string column = item.substr(6);
      if (traits_.recipe != "for-update" || made_.table.empty())
        wrong(item, value, "nothing but with recipe for-update and ?table=");
      if (!identifier(column)) wrong(item, value, "a column's name of letters, digits, _ and $ behind where.");
      made_.where.emplace_back(column, value);
    }
  }

  const Url& url_;
  const Traits& traits_;
  const Settings& settings_;
  Options made_;
  std::string wrong_;
};

}  // namespace

std::string Server::text() const { return socket.empty() ? fmt::format("{}:{}", host, port) : socket; }

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  return Parser{url, traits, settings}.parse();
}

}  // namespace dlock::mysql
