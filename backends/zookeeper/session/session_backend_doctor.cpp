// SPDX-License-Identifier: Apache-2.0
// Checks whether this ensemble can keep locks safely, by facts that a client can see, and by the
// servers' four-letter words, if enabled.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <zookeeper/zookeeper.h>
#include <algorithm>
#include "common/examination.hpp"
#include "common/exchange.hpp"
#include "common/lookup.hpp"
#include "core/duration.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

using namespace std::chrono_literals;
using Level = Finding::Level;

namespace {

// Sends one request, and reads the reply until the server closes the connection. Empty: no reply
// came in time.
std::string query(const Url::Host& at, std::string_view command) {
  const Deadline until = later(Clock::now(), 1s);
  const auto addresses = look_up(at.name, at.port.value_or(0), until);
  if (!addresses) return {};
  for (const Address& a : *addresses) {
    const Fd fd{::socket(a.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    (void)::connect(fd.get(), a.get(), a.size);  // if this fails, the wait or the send fails
    if (!wait_for(fd.get(), POLLOUT, {until}) ||
        ::send(fd.get(), command.data(), command.size(), MSG_NOSIGNAL) < 0)
      continue;
    std::string text;
    char block[4096];
    while (wait_for(fd.get(), POLLIN, {until}) && text.size() < 65536) {
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

std::optional<std::int64_t> number(std::string_view conf, std::string_view name) {
  const std::string value = field(conf, name, "=");
  std::string_view digits = value;
  return leading_number<std::int64_t>(digits);
}

// "3.4.14-4c25d480, built on ..."
bool old(std::string_view version) {
  const auto major = leading_number<int>(version);
  if (!major || !version.starts_with('.')) return false;
  version.remove_prefix(1);
  const auto minor = leading_number<int>(version);
  return minor && (*major < 3 || (*major == 3 && *minor < 5));
}

void limits(const Options& o, const std::string& server, std::string_view conf, Findings& found) {
  const auto tick_ms = number(conf, "tickTime"), least = number(conf, "minSessionTimeout"),
             most = number(conf, "maxSessionTimeout");
  const std::string what = "session limits of " + server;
  if (!tick_ms || !least || !most)
    return found.add(what, "it does not answer conf", Level::unknown,
                     "add conf to 4lw.commands.whitelist: with a minSessionTimeout below two "
                     "ticks the proof of a lock is too long");
  if (const auto clients = number(conf, "maxClientCnxns"))
    found.add("maxClientCnxns of " + server, fmt::to_string(*clients),
              good_if(*clients <= 0 || *clients >= 100, Level::warning),  // 0: no limit
              "each holder and each waiter of a host needs a connection");
  const Duration tick = 1ms * *tick_ms;
  found.add(what,
            fmt::format("tickTime {}, sessions of {} to {}", format_duration(tick),
                        format_duration(1ms * *least), format_duration(1ms * *most)),
            good_if(*least >= 2 * *tick_ms || o.tick >= tick, Level::bad),
            fmt::format("minSessionTimeout is below two ticks: say ?tick={} in the URL, "
                        "or a --ttl of four ticks",
                        format_duration(tick)));
  if (o.tick > Duration{} && o.tick < tick)
    found.add(
        "?tick=", format_duration(o.tick), Level::bad,
        fmt::format("{} has {}: deadlines would come too late", server, format_duration(tick)));
}

// If a leader is silent for syncLimit ticks, the followers leave it and elect another leader. Names
// the options with which a job survives this election, however late its last renewal was. Two
// renewals are a third of the proven time apart, and before the end of the proven time dlock needs
// time to end the job.
void silent_leader(const Options& o, std::string_view conf, Findings& found) {
  const auto tick_ms = number(conf, "tickTime"), ticks = number(conf, "syncLimit"),
             most = number(conf, "maxSessionTimeout");
  if (!tick_ms || !ticks || !most) return;
  constexpr Duration election = 3s, kill_after = 2s;
  const Duration tick = std::max<Duration>(1ms * *tick_ms, o.tick), away = tick * *ticks + election;
  Duration ttl = 4s;
  const auto outlives = [&] {
    const Duration proven = proven_of(ttl, Duration{}, tick);
    return proven * 2 / 3 - kill_after - std::max<Duration>(500ms, proven / 20) >= away;
  };
  while (!outlives() && ttl <= 1ms * *most) ttl += 1s;
  const bool fits = ttl <= 1ms * *most;
  std::string what = fmt::format("replaced after about {}", format_duration(away));
  if (fits)
    what += fmt::format("; jobs outlive that with ?tick={} --ttl {} --kill-after {}",
                        format_duration(tick), format_duration(ttl), format_duration(kill_after));
  found.add("silent leader", std::move(what), good_if(fits, Level::warning),
            "no session lasts long enough for a job to outlive that: lower syncLimit, or raise "
            "maxSessionTimeout");
}

void servers(const Options& o, Findings& found) {
  bool all = true, some = false;
  std::string modes, last_conf;
  for (const Url::Host& server : o.servers) {
    const std::string one = fmt::format("{}:{}", server.name, *server.port);
    const std::string srvr = query(server, "srvr"), mode = field(srvr, "Mode", ": ");
    all = all && !srvr.empty();
    some = some || !mode.empty();
    add_part(modes, one + (!mode.empty()  ? " " + mode
                           : srvr.empty() ? " silent"
                                          : " mode unknown"));
    if (const std::string version = field(srvr, "Zookeeper version", ": "); !version.empty())
      found.add("version of " + one, version, good_if(!old(version), Level::bad),
                "3.5 or newer is needed");
    const std::string conf = query(server, "conf");
    if (!srvr.empty() || number(conf, "tickTime")) limits(o, one, conf, found);
    if (number(conf, "syncLimit")) last_conf = conf;
  }
  found.add("servers", modes, !all ? Level::warning : good_if(some, Level::unknown),
            all ? ""
                : "a server that does not answer brings the ensemble nearer to the loss of its "
                  "quorum");
  silent_leader(o, last_conf, found);
  if (o.servers.size() < 3)
    found.add("ensemble", o.servers.size() == 1 ? "one server named" : "two servers named",
              Level::warning, "three or more, so that one may fail; name them all in the URL");
}

}  // namespace

// Creates the nodes of a lock, and missing nodes above them, and removes them. All this is one
// transaction, so nobody else ever sees the nodes.
Result<int> SessionBackend::try_a_lock(Session& s) {
  const std::string key = options_.root + "doctor-" + Owner::random().hex();
  std::vector<Op> ops;
  for (std::size_t slash = key.find('/', 1); slash != key.npos; slash = key.find('/', slash + 1)) {
    const std::string above = key.substr(0, slash);
    TRY(there, answer(s, "examine", s.exists(above), op_deadline(), {ZNONODE}));
    if (there.rc == ZNONODE) ops.push_back({.kind = Op::Kind::create, .path = above});
  }
  ops.push_back({.kind = Op::Kind::create, .path = key});
  ops.push_back({.kind = Op::Kind::create, .path = key + "/place", .flags = ZOO_EPHEMERAL});
  for (std::size_t i = ops.size(); i-- > 0;)
    ops.push_back({.kind = Op::Kind::remove, .path = ops[i].path});
  const Session::Call call = s.multi(ops);
  TRY_VOID(done(s, "examine", {&call}, op_deadline()));
  return call.reply().rc;
}

Result<std::vector<Finding>> SessionBackend::doctor() {
  TRY(got, reader());
  Session& s = *got;
  Findings found;
  servers(options_, found);

  // A write that changes nothing: it passes through the leader and a majority, or fails.
  const Deadline sent = Clock::now();
  const Session::Call write = s.multi({{Op::Kind::check, "/"}});
  const bool quorum = s.finish({&write}, op_deadline()) && write.reply().rc == ZOK;
  const Duration elapsed = std::chrono::ceil<Duration>(Clock::now() - sent);
  found.add("quorum",
            quorum ? fmt::format("a write was committed in {}", format_duration(elapsed))
                   : "a write was not committed",
            good_if(quorum, Level::bad),
            "no majority of the servers works together: no lock can be taken or kept");

  if (quorum) {
    TRY(rc, try_a_lock(s));
    found.add(
        "first lock",
        rc == ZOK ? "could be taken" : printable(server_error(options_, "try it", rc).message),
        good_if(rc == ZOK, Level::bad), "the rights that are needed are in dlock-zookeeper(7)");
  }

  const std::string directory = options_.root.size() > 1 && options_.root.ends_with('/')
                                    ? options_.root.substr(0, options_.root.size() - 1)
                                    : std::string{parent_of(options_.root + "k")};
  const Session::Call acl = s.acl(directory);
  TRY_VOID(done(s, "read the ACL", {&acl}, op_deadline()));
  const std::vector<std::string>& rights = acl.reply().names;
  if (acl.reply().rc == ZOK) {
    const bool open = std::ranges::any_of(rights, [](const std::string& one) {
      return one.starts_with("world:anyone ") && !one.ends_with(" 1");
    });
    found.add("ACL of " + directory, fmt::format("{}", fmt::join(rights, ", ")),
              good_if(!open || options_.auth.empty(), Level::warning),
              "all clients may change it, though this one logs in: give the directory to your "
              "credential");
  } else {
    const bool missing = acl.reply().rc == ZNONODE;
    found.add("ACL of " + directory, missing ? "it does not exist yet" : "not readable",
              good_if(missing, Level::bad), "this client may not use the directory");
  }
  if (!options_.auth.empty() && !options_.is_on_loopback)
    found.add("login", "the credential is sent unencrypted", Level::warning,
              "a private network or a tunnel; this client has no TLS");
  return found.extract();
}

}  // namespace dlock::zookeeper
