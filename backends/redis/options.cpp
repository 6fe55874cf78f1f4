// SPDX-License-Identifier: Apache-2.0
#include "redis/options.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include "core/duration.hpp"
#include "core/key.hpp"

namespace dlock::redis {
namespace {

class Parser {
 public:
  Parser(const Url& url, const Traits& traits, const Settings& settings) : url_(url), traits_(traits), settings_(settings) {}

  Result<Options> parse() {
    made_.op_timeout = settings_.op_timeout;
    made_.connect_timeout = settings_.connect_timeout;
    made_.interrupt_fd = settings_.interrupt_fd;
    made_.where = url_.redacted();
    made_.prefix = url_.item("prefix").value_or(traits_.native ? "dlock:" : "");
    if (made_.prefix.find_first_of("{}") != made_.prefix.npos)
      wrong("prefix", made_.prefix, "anything without braces, which mark the part of a key that chooses its slot in a cluster");
    servers();
    login();
    tls();
    if (const auto n = number("replicas", 1000)) made_.replicas = *n;
    if (const auto text = url_.item("restart_grace")) {
      const auto d = parse_duration(*text);
      if (d) made_.restart_grace = *d;
      else wrong("restart_grace", *text, "a duration such as 60s, or 0");
    }
    recipe_items();
    if (!wrong_.empty()) return fail(Errc::usage, fmt::format("backend URL {}: {}", quoted(url_.redacted(), 300), wrong_));
    return std::move(made_);
  }

 private:
  void wrong(std::string_view item, std::string_view value, std::string_view allowed) {
    if (wrong_.empty()) wrong_ = fmt::format("{} is {}; allowed is {}", item, quoted(value), allowed);
  }

  std::optional<unsigned> parse_number(std::string_view item, std::string_view text, unsigned most) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value <= most) return value;
    wrong(item, text, fmt::format("a number from 0 to {}", most));
    return std::nullopt;
  }
  std::optional<unsigned> number(std::string_view item, unsigned most) {
    const auto text = url_.item(item);
    return text ? parse_number(item, *text, most) : std::nullopt;
  }

  // Items that one recipe alone has.
  void recipe_items() {
    const auto only = [&](std::string_view item, std::string_view recipe) {
      const auto text = url_.item(item);
      if (text && traits_.recipe != recipe) wrong(item, *text, fmt::format("nothing but with recipe {}", recipe));
      return text;
    };
    if (const auto text = only("stale_after", "setnx-expire")) {
      const auto d = parse_duration(*text);
      if (d && *d > Duration{}) made_.stale_after = *d;
      else wrong("stale_after", *text, "a duration above 0, such as 1h");
    }
    if (const auto text = only("unit", "getset")) {
      if (*text == "ms") made_.unit = 1000;
      else if (*text != "s") wrong("unit", *text, "s or ms: what the timestamps of the others count");
    }
  }

  void servers() {
    const bool socket = url_.scheme == "redis+unix";
    std::string_view path = url_.path;
    if (socket) {
      if (!url_.hosts.empty()) wrong("host", url_.hosts.front().name, "none: redis+unix:///PATH has three slashes");
      if (path.size() < 2) wrong("path", path, "the path of a socket, as in redis+unix:///run/redis.sock");
      made_.servers.push_back({.host = {}, .port = 0, .socket = url_.path});
      if (const auto n = number("db", 1'000'000)) made_.database = *n;
      return;
    }
    if (url_.item("db")) wrong("db", *url_.item("db"), "an item of redis+unix only; others write /N behind the host");
    const bool sentinel = url_.scheme == "redis+sentinel", cluster = url_.scheme == "redis+cluster";
    const bool independent = url_.scheme == "redlock";
    const bool several = sentinel || cluster || independent;
    if (url_.hosts.empty() || (!several && url_.hosts.size() != 1))
      wrong("host", url_.hosts.empty() ? "" : fmt::format("{} hosts", url_.hosts.size()),
            sentinel      ? "the sentinels, as in redis+sentinel://H1,H2,H3/MASTER"
            : cluster     ? "nodes, as in redis+cluster://H1,H2"
            : independent ? "masters, as in redlock://H1,H2,H3"
                          : "one, as in redis://HOST[:PORT][/DB]");
    const std::uint16_t usual = sentinel ? 26379 : 6379;
    for (const auto& host : url_.hosts)
      made_.servers.push_back({.host = host.name, .port = host.port.value_or(usual), .socket = {}});
    if (path.starts_with('/')) path.remove_prefix(1);
    if (sentinel) {
      made_.topology = Options::Topology::sentinel;
      made_.master = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(made_.master.size() + 1, path.size()));
      if (made_.master.empty()) wrong("master", "", "its name behind the sentinels, as in redis+sentinel://H1,H2,H3/MASTER");
    }
    if (!path.empty())
      if (const auto n = parse_number("database", path, 1'000'000)) made_.database = *n;
    if (independent) masters();
    if (cluster) {
      made_.topology = Options::Topology::cluster;
      if (made_.database != 0) wrong("database", path, "none: a cluster has no databases");
    }
  }

  // Of which a majority decides: one that is named twice would vote twice, and half of an even number decides nothing.
  void masters() {
    made_.topology = Options::Topology::independent;
    for (std::size_t i = 0; i < made_.servers.size(); ++i)
      if (std::find(made_.servers.begin(), made_.servers.begin() + static_cast<std::ptrdiff_t>(i), made_.servers[i]) !=
          made_.servers.begin() + static_cast<std::ptrdiff_t>(i))
        wrong("host", made_.servers[i].text(), "each master once");
    const auto even = url_.item("allow_even");
    if (even && *even != "yes" && *even != "no") wrong("allow_even", *even, "yes or no");
    if (made_.servers.size() % 2 == 0 && even != "yes")
      wrong("host", fmt::format("{} hosts", made_.servers.size()),
            "an odd number of masters: one more of an even number bears no more failures (allow_even=yes overrules)");
  }

  void login() {
    made_.user = url_.user;
    made_.password = !settings_.password.empty() ? settings_.password : url_.password;
    if (made_.password.empty())
      if (const char* own = std::getenv("REDISCLI_AUTH")) made_.password = own;
    if (!made_.user.empty() && made_.password.empty())
      wrong("user", made_.user, "a user with a password: --password-file, DLOCK_PASSWORD or REDISCLI_AUTH");
  }

  void tls() {
    const auto asked = url_.item("tls");
    const bool on = url_.scheme == "rediss" || (asked && *asked == "yes");
    if (asked && *asked != "yes" && *asked != "no") wrong("tls", *asked, "yes or no");
    if (asked && *asked == "no" && url_.scheme == "rediss") wrong("tls", *asked, "yes, with rediss://");
    if (on && url_.scheme == "redis+unix") wrong("tls", *asked, "no, with a unix socket");
    TlsOptions files;
    const auto file = [&](std::string_view item, const std::string& setting) {
      const auto in_url = url_.item(item);
      if (!on && in_url) wrong(item, *in_url, "nothing without TLS: use rediss:// or tls=yes");
      return !setting.empty() ? setting : std::string{in_url.value_or("")};
    };
    files.ca = file("tls_ca", settings_.tls_ca);
    files.cert = file("tls_cert", settings_.tls_cert);
    files.key = file("tls_key", settings_.tls_key);
    files.insecure = settings_.tls_insecure;
    if (on) made_.tls = std::move(files);
  }

  const Url& url_;
  const Traits& traits_;
  const Settings& settings_;
  Options made_;
  std::string wrong_;
};

}  // namespace

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  return Parser{url, traits, settings}.parse();
}

}  // namespace dlock::redis
