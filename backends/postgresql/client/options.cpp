// SPDX-License-Identifier: Apache-2.0
#include "postgresql/client/options.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include "common/lookup.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "postgresql/factory.hpp"
#include "util/file.hpp"

namespace dlock::postgresql {
namespace {

constexpr std::uint16_t usual_port = 5432;
constexpr std::string_view socket_example = "postgresql+unix:///run/postgresql?db=DB";

bool on_socket(const Url& url) noexcept { return url.scheme == "postgresql+unix"; }

// "a,,b" has three items, and the second item is empty. "" has none.
std::vector<std::string> list_of(std::string_view text) {
  std::vector<std::string> list;
  if (text.empty()) return list;
  for (;;) {
    const std::size_t comma = text.find(',');
    list.emplace_back(text.substr(0, comma));
    if (comma == text.npos) return list;
    text.remove_prefix(comma + 1);
  }
}

void servers(UrlItems& items, const Url& url, Options& o) {
  if (on_socket(url)) {
    if (!url.hosts.empty())
      items.wrong("host", url.hosts.front().name,
                  "none: postgresql+unix:///DIRECTORY?db=DB has three slashes");
    if (url.path.size() < 2)
      items.wrong("path", url.path,
                  fmt::format("the directory of a socket, as in {}", socket_example));
    const auto port = static_cast<std::uint16_t>(items.number("port"));
    o.servers.push_back({.host = {}, .port = port, .socket = url.path});
    if (const auto address = url.item("hostaddr"))
      items.wrong("hostaddr", *address, "nothing with a unix socket");
    o.database = items.text("db");
    if (o.database.empty())
      items.wrong("db", "", fmt::format("the name of a database, as in {}", socket_example));
    return;
  }
  if (url.hosts.empty()) items.wrong("host", "", "a host, as in postgresql://HOST[:PORT]/DB");
  const std::vector<std::string> addresses = list_of(items.text("hostaddr"));
  const auto is_ip = [](const std::string& text) { return text.empty() || is_address(text); };
  if ((!addresses.empty() && addresses.size() != url.hosts.size()) ||
      !std::ranges::all_of(addresses, is_ip))
    items.wrong("hostaddr", items.text("hostaddr"), "an address for each host");
  for (const auto& h : url.hosts) {
    const std::size_t i = o.servers.size();
    o.servers.push_back({h.name,
                         h.port.value_or(usual_port),
                         {},
                         i < addresses.size() ? addresses[i] : std::string{}});
  }
  if (!url.path.empty()) o.database = url.path.substr(1);
  if (o.database.empty())
    items.wrong("database", "",
                "the name of a database behind the host, as in postgresql://HOST/DB");
}

// sslmode= would override the --tls options, so it must not be weaker than they are.
bool verifies(std::string_view sslmode) noexcept {
  return sslmode == "verify-ca" || sslmode == "verify-full";
}

// Returns the sslmode of a service, from the file in which libpq finds the service; empty: the
// service has no sslmode.
std::string sslmode_of(std::string_view service) {
  constexpr std::size_t largest = 65536;
  const auto from = [](const char* name, std::string otherwise) {
    const char* value = std::getenv(name);
    return value ? std::string{value} : std::move(otherwise);
  };
  for (const std::string& path :
       {from("PGSERVICEFILE", home_directory() + "/.pg_service.conf"),
        from("PGSYSCONFDIR", "/etc/postgresql-common") + "/pg_service.conf"}) {
    const Fd file = open_to_read(path);
    const auto text = file ? read_text(file.get(), {largest}) : std::nullopt;
    if (!text) continue;
    bool ours = false;
    for (std::string_view left = *text; !left.empty();) {
      std::string_view line = next_part(left, '\n');
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (line.starts_with('[') && ours) break;
      if (line.starts_with('[')) ours = line.starts_with(fmt::format("[{}]", service));
      else if (ours && line.starts_with("sslmode="))
        return std::string{line.substr(8, line.find_last_not_of(" \t\r") - 7)};
    }
    if (ours) break;
  }
  return {};
}

// Errc::config: the library cannot read a file, or the file is a FIFO, on which the library would
// block.
Result<void> tls(UrlItems& items, const Url& url, const Settings& s, Options& o) {
  o.tls_name = !s.tls_name.empty() ? s.tls_name : items.text("tls_name");
  const std::pair<std::string_view, const std::string*> given[] = {{"--tls-ca", &s.tls_ca},
                                                                   {"--tls-cert", &s.tls_cert},
                                                                   {"--tls-key", &s.tls_key},
                                                                   {"--tls-name", &o.tls_name}};
  const auto* const first =
      std::ranges::find_if(given, [](const auto& g) { return !g.second->empty(); });
  const char* of_environment = std::getenv("PGSSLMODE");
  const std::string_view environment = of_environment ? of_environment : "";
  const auto in_url = url.item("sslmode");
  if (first != std::end(given) || s.tls_insecure) {
    constexpr std::string_view allowed = "verify-ca or verify-full beside the --tls options";
    if (on_socket(url) && first != std::end(given))
      items.wrong(first->first, *first->second, "nothing: a unix socket has no TLS");
    if (in_url && !verifies(*in_url) && !s.tls_insecure) items.wrong("sslmode", *in_url, allowed);
    if (!in_url && !environment.empty() && !verifies(environment) && !s.tls_insecure)
      items.wrong("PGSSLMODE", environment, allowed);
    const char* of_all = std::getenv("PGSERVICE");
    const std::string service{url.item("service").value_or(of_all ? of_all : "")};
    const auto in_service = service.empty() || in_url ? "" : sslmode_of(service);
    if (!in_service.empty() && !verifies(in_service) && !s.tls_insecure)
      items.wrong(fmt::format("sslmode of service {}", service), in_service, allowed);
    if (!in_url || s.tls_insecure)
      o.library.emplace_back("sslmode", s.tls_insecure ? "require" : "verify-full");
  }
  for (const auto& [item, path] :
       {std::pair{"sslrootcert", &s.tls_ca}, std::pair{"sslcert", &s.tls_cert},
        std::pair{"sslkey", &s.tls_key}})
    if (!path->empty()) o.library.emplace_back(item, *path);
  for (const auto& [item, value] : url.items) {
    const auto covers = [&name = item](const UrlItem& row) { return row.covers(name); };
    const auto has = [&name = item](const auto& pair) { return pair.first == name; };
    if (std::ranges::any_of(library_items, covers) && std::ranges::none_of(o.library, has))
      o.library.emplace_back(item, value);
  }
  for (const auto& [item, value] : o.library)
    if (item == "sslrootcert" || item == "sslcert" || item == "sslkey")
      if (const char* why = value == "system" ? nullptr : why_unusable(value, false))
        return fail(Errc::config, "{}: {}", quoted(value), why);
  return {};
}

}  // namespace

// Moves ?user=, ?password= and ?host= to their usual parts of the URL. The ports of the hosts come
// from the authority or from ?port=. If the host is a directory, the URL becomes the URL of a unix
// socket. An item that contradicts the authority stays in the URL.
void normalize_url(Url& url) {
  for (const auto& [item, field] :
       {std::pair{"user", &url.user}, std::pair{"password", &url.password}}) {
    const std::string value{url.item(item).value_or("")};
    if (field->empty()) *field = value;
    if (value.empty() || *field == value)
      std::erase_if(url.items, [&name = item](const auto& i) { return i.first == name; });
  }
  if (on_socket(url)) return;
  std::vector<Url::Host> hosts = url.hosts;
  std::vector<std::string> names = list_of(url.item("host").value_or("")),
                           ports = list_of(url.item("port").value_or(""));
  // If only ?hostaddr= is given, the address is also the host.
  if (hosts.empty() && names.empty()) names = list_of(url.item("hostaddr").value_or(""));
  if (!names.empty()) {
    const auto given = std::exchange(hosts, {});
    for (const std::string& name : names) {
      const std::size_t i = given.size() == 1 ? 0 : hosts.size();
      hosts.push_back({name, i < given.size() ? given[i].port : std::nullopt});
    }
  }
  if (!ports.empty() && ports.size() != 1 && ports.size() != hosts.size()) return;
  for (std::size_t i = 0; i < hosts.size() && !ports.empty(); ++i) {
    const std::string& text = ports[ports.size() == 1 ? 0 : i];
    hosts[i].port = text.empty() ? std::nullopt : parse_number<std::uint16_t>(text);
    if (!text.empty() && hosts[i].port.value_or(0) == 0) return;
  }
  const bool socket = hosts.size() == 1 && hosts.front().name.starts_with('/');
  const auto is_name = [](const Url::Host& host) { return is_host(host.name); };
  if (!socket && !std::ranges::all_of(hosts, is_name)) return;
  std::erase_if(url.items, [](const auto& i) { return i.first == "host" || i.first == "port"; });
  url.hosts = std::move(hosts);
  if (!socket) return;
  const Url::Host directory = url.hosts.front();
  if (url.path.size() > 1) url.items.emplace_back("db", url.path.substr(1));
  if (directory.port) url.items.emplace_back("port", std::to_string(*directory.port));
  url.scheme = "postgresql+unix";
  url.path = directory.name;
  url.hosts.clear();
}

// sslmode=disable means no TLS. Otherwise the server decides, unless --tls-ca sets
// sslmode=verify-full.
Access access(const Url& url) {
  Access a{.port = usual_port, .no_auth = "it has passwords (--password-file)"};
  if (on_socket(url)) a.no_tls = "a unix socket has no TLS";
  else if (url.item("sslmode") == "disable") a.no_tls = "it is without TLS: sslmode=disable";
  return a;
}

std::string Server::text() const {
  return socket.empty() ? fmt::format("{}:{}", host, port)
                        : fmt::format("{}/.s.PGSQL.{}", socket, port);
}

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  UrlItems given{items, url, traits, settings};
  Options o;
  static_cast<LoginOptions&>(o) = given.login_options();
  o.prefix = given.prefix("dlock:");
  if (o.prefix.size() > 50) given.wrong("prefix", o.prefix, "at most 50 bytes");
  if (std::ranges::any_of(o.prefix, [](char c) { return static_cast<unsigned char>(c) >= 128; }))
    given.wrong("prefix", o.prefix, "ASCII: a database may have any encoding");
  if (const auto left = url.item("host"))
    given.wrong("host", *left, "names of hosts, or the directory of one socket");
  for (const char* item : {"user", "password"})
    if (url.item(item)) given.wrong(item, "***", "the same as before the '@', or none there");
  servers(given, url, o);
  if (o.database.size() > 63) given.wrong("database", o.database, "at most 63 characters");
  if (given.text("connect_timeout") == "0") given.wrong("connect_timeout", "0", "seconds above 0");
  o.poll = given.text("wake") == "poll";
  o.key_kind = given.text("key");
  const auto files = tls(given, url, settings, o);
  if (!files) return fail(files.error());
  TRY_VOID(given.verdict());
  return o;
}

}  // namespace dlock::postgresql
