// SPDX-License-Identifier: Apache-2.0
// Is this ensemble fit for locks? Facts that a client can see, and those of the servers'
// four-letter words, if enabled.
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <cstring>
#include "common/examination.hpp"
#include "core/duration.hpp"
#include "core/number.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;
using Level = Finding::Level;

namespace {

// One request, one reply, then the server closes. Empty: no reply in time.
std::string ask(const std::string& host, const std::string& port, std::string_view word,
                Deadline until) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses{found, ::freeaddrinfo};
  const auto wait = [&](int fd, short events) {
    pollfd p{fd, events, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    return left > 0ms && ::poll(&p, 1, static_cast<int>(left.count())) > 0;
  };
  for (const addrinfo* a = found; a; a = a->ai_next) {
    const Fd fd{::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    (void)::connect(fd.get(), a->ai_addr, a->ai_addrlen);  // in progress, or wait() fails
    if (!wait(fd.get(), POLLOUT) || ::send(fd.get(), word.data(), word.size(), MSG_NOSIGNAL) < 0)
      continue;
    std::string text;
    char block[4096];
    while (wait(fd.get(), POLLIN) && text.size() < 65536) {
      const ssize_t n = ::recv(fd.get(), block, sizeof block, 0);
      if (n <= 0) break;
      text.append(block, static_cast<std::size_t>(n));
    }
    return text;
  }
  return {};
}

std::string field(std::string_view text, std::string_view name, std::string_view separator) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(separator))
      return std::string{line.substr(name.size() + separator.size())};
    at += line.size() + 1;
  }
  return {};
}

std::optional<Duration> millis(const std::string& text) {
  std::string_view digits = text;
  const auto n = take_number<std::int64_t>(digits);
  return n ? std::optional<Duration>{std::chrono::milliseconds{*n}} : std::nullopt;
}

std::optional<std::int64_t> take_limit(std::string_view digits) {
  return take_number<std::int64_t>(digits);
}

// "3.4.14-4c25d480, built on ..."
bool old(std::string_view version) {
  const auto major = take_number<int>(version);
  if (!major || !version.starts_with('.')) return false;
  version.remove_prefix(1);
  const auto minor = take_number<int>(version);
  return minor && (*major < 3 || (*major == 3 && *minor < 5));
}

void servers(const Options& o, Findings& found) {
  unsigned up = 0, asked = 0, told = 0;
  std::string modes;
  for (std::string_view rest = o.servers; !rest.empty();) {
    const std::string one{rest.substr(0, rest.find(','))};
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const std::size_t colon = one.rfind(':');
    const std::string host = one.substr(0, colon);
    const std::string port = one.substr(colon + 1);
    ++asked;
    const std::string srvr = ask(host, port, "srvr", later(Clock::now(), 1s));
    const std::string mode = field(srvr, "Mode", ": ");
    up += !srvr.empty();
    told += !mode.empty();
    modes += fmt::format("{}{} {}", modes.empty() ? "" : ", ", one,
                         !mode.empty()  ? mode
                         : srvr.empty() ? "silent"
                                        : "mode unknown");
    if (const std::string version = field(srvr, "Zookeeper version", ": "); !version.empty())
      found.add("version of " + one, version, good_if(!old(version), Level::bad),
                "3.5 or newer is needed");
    const std::string conf = ask(host, port, "conf", later(Clock::now(), 1s));
    const auto tick = millis(field(conf, "tickTime", "=")),
               least = millis(field(conf, "minSessionTimeout", "=")),
               most = millis(field(conf, "maxSessionTimeout", "="));
    if (!tick || !least || !most) {
      if (!srvr.empty())
        found.add(
            "session limits of " + one, "it does not answer conf", Level::unknown,
            "add conf to 4lw.commands.whitelist: with a minSessionTimeout below two ticks the "
            "proof of a lock is too long");
      continue;
    }
    // 0: no limit
    if (const auto most_clients = take_limit(field(conf, "maxClientCnxns", "=")))
      found.add("maxClientCnxns of " + one, fmt::to_string(*most_clients),
                good_if(*most_clients <= 0 || *most_clients >= 100, Level::warning),
                "each holder and each waiter of a host needs a connection");
    found.add(
        "session limits of " + one,
        fmt::format("tickTime {}, sessions of {} to {}", format_duration(*tick),
                    format_duration(*least), format_duration(*most)),
        good_if(*least >= 2 * *tick || o.tick >= *tick, Level::bad),
        fmt::format("minSessionTimeout is below two ticks: say ?tick={} in the URL, or a --ttl "
                    "of four ticks",
                    format_duration(*tick)));
    if (o.tick > Duration{} && o.tick < *tick)
      found.add(
          "?tick=", format_duration(o.tick), Level::bad,
          fmt::format("{} has {}: deadlines would come too late", one, format_duration(*tick)));
  }
  const bool all = up == asked;
  found.add("servers", modes,
            !all        ? Level::warning
            : told == 0 ? Level::unknown
                        : Level::good,
            all ? ""
                : "a server that does not answer brings the ensemble nearer to the loss of its "
                  "quorum");
  if (asked < 3)
    found.add("ensemble", asked == 1 ? "one server named" : "two servers named", Level::warning,
              "three or more, so that one may fail; name them all in the URL");
}

}  // namespace

Result<std::vector<Finding>> SessionBackend::doctor() {
  TRY(got, looker());
  Session& s = *got;
  Findings found;
  servers(options_, found);

  // A write that changes nothing goes through the leader and a majority, or fails.
  const std::string top = options_.root.substr(0, options_.root.find('/', 1));
  const Deadline sent = Clock::now();
  const Session::Call write = s.multi({{Op::Kind::check, "/", {}, -1}});
  const bool quorum = s.finish({&write}, op_deadline()) && write.reply().rc == ZOK;
  found.add("quorum",
            quorum ? fmt::format("a write was committed in {}",
                                 format_duration(std::chrono::ceil<Duration>(Clock::now() - sent)))
                   : "a write was not committed",
            good_if(quorum, Level::bad),
            "no majority of the servers works together: no lock can be taken or kept");

  const std::string directory = options_.root.size() > 1 && options_.root.ends_with('/')
                                    ? options_.root.substr(0, options_.root.size() - 1)
                                    : std::string{parent_of(options_.root + "k")};
  const Session::Call acl = s.acl(directory);
  TRY_VOID(done(s, "read the ACL", {&acl}, op_deadline()));
  if (acl.reply().rc == ZOK) {
    std::string text;
    bool open = false;
    for (const std::string& one : acl.reply().names) {
      text += (text.empty() ? "" : ", ") + one;
      open = open || (one.starts_with("world:anyone ") && !one.ends_with(" 1"));
    }
    found.add("ACL of " + directory, text, good_if(!open || options_.auth.empty(), Level::warning),
              "all clients may change it, though this one logs in: give the directory to your "
              "credential");
  } else {
    const bool missing = acl.reply().rc == ZNONODE;
    found.add("ACL of " + directory, missing ? "it does not exist yet" : "not readable",
              good_if(missing, Level::bad), "this client may not use the directory");
  }
  if (!options_.auth.empty() && !options_.all_loopback)
    found.add("login", "the credential is sent unencrypted", Level::warning,
              "a private network or a tunnel; this client has no TLS");
  return found.take();
}

}  // namespace dlock::zookeeper
