// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/options.hpp"
#include <fmt/format.h>
#include <cstdlib>
#include "core/text.hpp"
#include "mysql/client/my_cnf.hpp"
#include "mysql/factory.hpp"
#include "util/file.hpp"

namespace dlock::mysql {
namespace {

constexpr std::uint16_t usual_port = 3306;

class Parser {
 public:
  Parser(const Url& url, const Traits& traits, const Settings& settings)
      : url_(url), traits_(traits), items_(items, url, traits, settings) {}

  Result<Options> parse() {
    static_cast<LoginOptions&>(made_) = items_.login_options();
    made_.prefix = items_.prefix("dlock:");
    if (made_.prefix.size() > 50) items_.wrong("prefix", made_.prefix, "at most 50 bytes");
    if (url_.scheme == "mysql+unix") socket();
    else servers();
    if (made_.database.size() > 64)
      items_.wrong("database", made_.database, "at most 64 characters");
    TRY(defaults, client_defaults());
    login(defaults);
    const auto files = tls(defaults);
    made_.plugin_dir = items_.text("plugin_dir");
    recipe_items();
    if (!files) return fail(files.error());
    TRY_VOID(items_.verdict());
    return std::move(made_);
  }

 private:
  void socket() {
    constexpr std::string_view example = "mysql+unix:///run/mysqld/mysqld.sock?db=DB";
    if (!url_.hosts.empty())
      items_.wrong("host", url_.hosts.front().name,
                   "none: mysql+unix:///PATH?db=DB has three slashes");
    if (url_.path.size() < 2)
      items_.wrong("path", url_.path, fmt::format("the path of a socket, as in {}", example));
    made_.servers.push_back({.host = {}, .port = 0, .socket = url_.path});
    made_.database = items_.text("db");
    if (made_.database.empty())
      items_.wrong("db", "", fmt::format("the name of a database, as in {}", example));
  }

  void servers() {
    if (url_.hosts.empty()) items_.wrong("host", "", "a host, as in mysql://HOST[:PORT]/DB");
    for (const auto& h : url_.hosts)
      made_.servers.push_back({h.name, h.port.value_or(usual_port), {}});
    if (made_.servers.size() > 1 && !traits_.native)
      items_.wrong("host", fmt::format("{} hosts", made_.servers.size()),
                   "one: only recipe lease excludes across the nodes of a cluster");
    if (!url_.path.empty()) made_.database = url_.path.substr(1);
    if (made_.database.empty())
      items_.wrong("database", "", "the name of a database behind the host, as in mysql://HOST/DB");
  }

  void login(const ClientDefaults& defaults) {
    if (made_.user.empty()) made_.user = defaults.user.value_or("");
    if (!made_.password.empty()) return;
    const char* own = std::getenv("MYSQL_PWD");
    if (own && *own) made_.password = own;
    // The password in the file belongs to the user in the file.
    else if (defaults.password && (!defaults.user || *defaults.user == made_.user)) {
      made_.password = *defaults.password;
      made_.password_of_cnf = true;
    }
  }

  // Errc::config: the library cannot read a file, or the file is a FIFO, on which it would block.
  Result<void> tls(const ClientDefaults& defaults) {
    if (const auto left = url_.item("ssl-mode"))
      items_.wrong("ssl-mode", *left, "nothing beside tls=");
    made_.tls = items_.tls(false, url_.scheme == "mysql+unix", "add tls=yes",
                           {defaults.ssl_ca.value_or(""), defaults.ssl_cert.value_or(""),
                            defaults.ssl_key.value_or("")});
    if (!made_.tls) return {};
    for (const std::string* path : {&made_.tls->key, &made_.tls->cert, &made_.tls->ca})
      if (const char* why = why_unusable(*path, path == &made_.tls->ca))
        return fail(Errc::config, "{}: {}", quoted(*path), why);
    return {};
  }

  void recipe_items() {
    made_.poll = items_.text("wake") == "poll";
    made_.clock_skew = items_.duration("clock_skew").value_or(Duration{});
    made_.table = items_.text("table");
    made_.key_column = items_.text("key_column");
    if (made_.key_column.empty() != (made_.table.empty() || traits_.recipe != "for-update"))
      items_.wrong("key_column", made_.key_column, "a column of ?table=, always together with it");
    made_.stale_after = items_.duration("stale_after");
    for (const auto& [item, value] : url_.items) {
      if (!item.starts_with("where.")) continue;
      const std::string column = item.substr(6);
      if (made_.table.empty())
        items_.wrong(item, value, "nothing but with recipe for-update and ?table=");
      if (!is_identifier(column))
        items_.wrong(item, value, "a column's name of letters, digits, _ and $ behind where.");
      made_.conditions.emplace_back(column, value);
    }
  }

  const Url& url_;
  const Traits& traits_;
  UrlItems items_;
  Options made_;
};

}  // namespace

Access access(const Url& url) {
  Access a{.port = usual_port, .no_auth = "it has passwords (--password-file)"};
  if (url.scheme == "mysql+unix") a.no_tls = "a unix socket has no TLS";
  else if (!asks_for_tls(url)) a.no_tls = "it is without TLS; add tls=yes";
  return a;
}

// Translates ?ssl-mode= to ?tls=. With REQUIRED, dlock also verifies the chain and the name, which
// MySQL's clients do not.
void normalize_url(Url& url) {
  if (url.item("tls")) return;
  for (auto& [name, value] : url.items)
    for (const auto& [mode, tls] : {std::pair{"DISABLED", "no"},
                                    {"REQUIRED", "yes"},
                                    {"VERIFY_CA", "verify-ca"},
                                    {"VERIFY_IDENTITY", "yes"}})
      if (name == "ssl-mode" && value == mode) {
        name = "tls";
        value = tls;
      }
}

bool Options::read_password_again() {
  if (!password_of_cnf) return LoginOptions::read_password_again();
  const auto defaults = client_defaults();
  if (!defaults || !defaults->password || *defaults->password == password) return false;
  password = *defaults->password;
  return true;
}

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  return Parser{url, traits, settings}.parse();
}

}  // namespace dlock::mysql
