// SPDX-License-Identifier: Apache-2.0
// Is this ensemble fit for locks? Facts that a client can see, and those of the servers'
// four-letter words, if enabled.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include <cstring>
#include "common/lookup.hpp"
#include "core/duration.hpp"
#include "core/number.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;
using Level = Finding::Level;

namespace {

// One request, one reply, then the server closes. Empty: no reply in time.
std::string ask(const Url::Host& at, std::string_view word) {
  const Deadline until = later(Clock::now(), 1s);
  const auto addresses = look_up(at.name, at.port.value_or(0), until);
  if (!addresses) return {};
  const auto wait = [&](int fd, short events) {
    pollfd p{fd, events, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    return left > 0ms && ::poll(&p, 1, static_cast<int>(left.count())) > 0;
  };
  for (const Address& a : *addresses) {
    const Fd fd{::socket(a.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    (void)::connect(fd.get(), a.get(), a.size);  // in progress, or wait() fails
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

void servers(const Options& o, std::vector<Finding>& out) {
  unsigned up = 0, asked = 0, told = 0;
  std::string modes;
  for (const Url::Host& server : o.servers) {
    const std::string one = fmt::format("{}:{}", server.name, *server.port);
    ++asked;
    const std::string srvr = ask(server, "srvr");
    const std::string mode = field(srvr, "Mode", ": ");
    up += !srvr.empty();
    told += !mode.empty();
    modes += fmt::format("{}{} {}", modes.empty() ? "" : ", ", one,
                         !mode.empty()  ? mode
                         : srvr.empty() ? "silent"
                                        : "mode unknown");
    if (const std::string version = field(srvr, "Zookeeper version", ": "); !version.empty())
      out.push_back(
          old(version) ? Finding{Level::bad, "version of " + one, version, "3.5 or newer is needed"}
                       : Finding{Level::good, "version of " + one, version, ""});
    const std::string conf = ask(server, "conf");
    const auto tick = millis(field(conf, "tickTime", "=")),
               least = millis(field(conf, "minSessionTimeout", "=")),
               most = millis(field(conf, "maxSessionTimeout", "="));
    if (!tick || !least || !most) {
      if (!srvr.empty())
        out.push_back({Level::unknown, "session limits of " + one, "it does not answer conf",
                       "add conf to 4lw.commands.whitelist: with a minSessionTimeout below two "
                       "ticks the proof of a lock is too long"});
      continue;
    }
    // 0: no limit
    if (const auto most_clients = take_limit(field(conf, "maxClientCnxns", "="))) {
      const bool few = *most_clients > 0 && *most_clients < 100;
      out.push_back({few ? Level::warning : Level::good, "maxClientCnxns of " + one,
                     fmt::to_string(*most_clients),
                     few ? "each holder and each waiter of a host needs a connection" : ""});
    }
    const bool proof_holds = *least >= 2 * *tick || o.tick >= *tick;
    out.push_back({proof_holds ? Level::good : Level::bad, "session limits of " + one,
                   fmt::format("tickTime {}, sessions of {} to {}", format_duration(*tick),
                               format_duration(*least), format_duration(*most)),
                   proof_holds ? ""
                               : fmt::format("minSessionTimeout is below two ticks: say ?tick={} "
                                             "in the URL, or a --ttl of four ticks",
                                             format_duration(*tick))});
    if (o.tick > Duration{} && o.tick < *tick)
      out.push_back(
          {Level::bad, "?tick=", format_duration(o.tick),
           fmt::format("{} has {}: deadlines would come too late", one, format_duration(*tick))});
  }
  const bool all = up == asked;
  out.push_back(
      {!all        ? Level::warning
       : told == 0 ? Level::unknown
                   : Level::good,
       "servers", modes,
       all ? ""
           : "a server that does not answer brings the ensemble nearer to the loss of its quorum"});
  if (asked < 3)
    out.push_back({Level::warning, "ensemble",
                   asked == 1 ? "one server named" : "two servers named",
                   "three or more, so that one may fail; name them all in the URL"});
}

}  // namespace

Result<std::vector<Finding>> SessionBackend::doctor() {
  TRY(got, reader());
  Session& s = *got;
  std::vector<Finding> out;
  servers(options_, out);

  // A write that changes nothing goes through the leader and a majority, or fails.
  const std::string top = options_.root.substr(0, options_.root.find('/', 1));
  const Deadline sent = Clock::now();
  const Session::Call write = s.multi({{Op::Kind::check, "/", {}, -1}});
  const bool quorum = s.finish({&write}, op_deadline()) && write.reply().rc == ZOK;
  out.push_back(
      {quorum ? Level::good : Level::bad, "quorum",
       quorum ? fmt::format("a write was committed in {}",
                            format_duration(std::chrono::ceil<Duration>(Clock::now() - sent)))
              : "a write was not committed",
       quorum ? "" : "no majority of the servers works together: no lock can be taken or kept"});

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
    const bool wide = open && !options_.auth.empty();
    out.push_back({wide ? Level::warning : Level::good, "ACL of " + directory, text,
                   wide ? "all clients may change it, though this one logs in: give the directory "
                          "to your credential"
                        : ""});
  } else {
    const bool missing = acl.reply().rc == ZNONODE;
    out.push_back({missing ? Level::good : Level::bad, "ACL of " + directory,
                   missing ? "it does not exist yet" : "not readable",
                   missing ? "" : "this client may not use the directory"});
  }
  if (!options_.auth.empty() && !options_.all_loopback)
    out.push_back({Level::warning, "login", "the credential is sent unencrypted",
                   "a private network or a tunnel; this client has no TLS"});
  return out;
}

}  // namespace dlock::zookeeper
