// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/options.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <utility>
#include "core/number.hpp"
#include "redis/factory.hpp"

namespace dlock::redis {
namespace {

using Topology = Options::Topology;

Topology topology_of(std::string_view scheme) noexcept {
  if (scheme == "redis+sentinel") return Topology::sentinel;
  return scheme == "redis+cluster" ? Topology::cluster : Topology::single;
}

class Parser {
 public:
  Parser(const Url& url, const Traits& traits, const Settings& settings, Topology topology)
      : url_(url), settings_(settings), items_(items, url, traits, settings) {
    made_.topology = topology;
  }

  Result<Options> parse() {
    static_cast<LoginOptions&>(made_) = items_.login_options();
    made_.prefix = items_.prefix("dlock:");
    if (made_.prefix.find_first_of("{}") != made_.prefix.npos)
      items_.wrong("prefix", made_.prefix,
                   "anything without braces, which mark the part of a key that chooses its slot in "
                   "a cluster");
    if (url_.scheme == "redis+unix") socket();
    else servers();
    login();
    made_.tls = items_.tls(url_.scheme == "rediss", url_.scheme == "redis+unix",
                           "use rediss:// or tls=yes");
    made_.replicas = items_.number("replicas");
    made_.restart_grace = items_.duration("restart_grace").value_or(Duration{});
    made_.stale_after = items_.duration("stale_after");
    if (items_.text("unit") == "ms") made_.unit = 1000;
    TRY_VOID(items_.verdict());
    return std::move(made_);
  }

 private:
  void socket() {
    if (!url_.hosts.empty())
      items_.wrong("host", url_.hosts.front().name, "none: redis+unix:///PATH has three slashes");
    if (url_.path.size() < 2)
      items_.wrong("path", url_.path, "the path of a socket, as in redis+unix:///run/redis.sock");
    made_.servers.push_back({.host = {}, .port = 0, .socket = url_.path});
    made_.database = items_.number("db");
  }

  void servers() {
    hosts();
    std::string_view path = url_.path;
    if (path.starts_with('/')) path.remove_prefix(1);
    if (made_.topology == Topology::sentinel) {
      made_.master = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(made_.master.size() + 1, path.size()));
      if (made_.master.empty())
        items_.wrong("master", "",
                     "its name behind the sentinels, as in redis+sentinel://H1,H2,H3/MASTER");
    }
    if (!path.empty()) items_.judge(items.front(), "database", path);
    made_.database = parse_number<unsigned>(path).value_or(0);
    if (made_.topology == Topology::cluster && made_.database != 0)
      items_.wrong("database", path, "none: a cluster has no databases");
  }

  void hosts() {
    const std::size_t count = url_.hosts.size();
    if (count == 0 || (made_.topology == Topology::single && count > 1))
      items_.wrong("host", count == 0 ? "" : fmt::format("{} hosts", count), wanted_hosts());
    for (const auto& host : url_.hosts)
      made_.servers.push_back(
          {.host = host.name, .port = host.port.value_or(usual_port(url_.scheme)), .socket = {}});
  }

  std::string wanted_hosts() const {
    switch (made_.topology) {
      case Topology::sentinel: return "the sentinels, as in redis+sentinel://H1,H2,H3/MASTER";
      case Topology::cluster: return "nodes, as in redis+cluster://H1,H2";
      case Topology::independent: return fmt::format("masters, as in {}://H1,H2,H3", url_.scheme);
      case Topology::single: break;
    }
    return "one, as in redis://HOST[:PORT][/DB]";
  }

  void login() {
    if (made_.password.empty())
      if (const char* own = std::getenv("REDISCLI_AUTH")) made_.password = own;
    if (!made_.user.empty() && made_.password.empty())
      items_.wrong("user", made_.user,
                   "a user with a password: --password-file, DLOCK_PASSWORD or REDISCLI_AUTH");
    made_.sentinels = {std::string{items_.text("sentinel_user")}, settings_.sentinel_password,
                       settings_.sentinel_password_file};
    const std::string& user = made_.sentinels.user;
    if (!user.empty() && made_.topology != Topology::sentinel)
      items_.wrong("sentinel_user", user, "nothing without sentinels: redis+sentinel://");
    if (!user.empty() && made_.sentinels.password.empty())
      items_.wrong("sentinel_user", user,
                   "a user with a password: ?sentinel_password_file= or DLOCK_SENTINEL_PASSWORD");
  }

  const Url& url_;
  const Settings& settings_;
  UrlItems items_;
  Options made_;
};

}  // namespace

std::uint16_t usual_port(std::string_view scheme) noexcept {
  return topology_of(scheme) == Topology::sentinel ? 26379 : 6379;
}

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings,
                              std::optional<Topology> topology) {
  return Parser{url, traits, settings, topology.value_or(topology_of(url.scheme))}.parse();
}

}  // namespace dlock::redis
