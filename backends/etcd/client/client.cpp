// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/client.hpp"
#include <fmt/format.h>
#include <sys/random.h>
#include <algorithm>
#include <cstdlib>
#include "core/text.hpp"
#include "etcd/factory.hpp"

namespace dlock::etcd {
namespace {

std::int64_t never_used_id() {
  std::int64_t id = 0;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) std::abort();
  return (id & INT64_MAX) | 1;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Returns whether the reply means that users changed, or that etcd does not know our token.
bool wants_login(std::string_view why) {
  return contains(why, "invalid auth token") || contains(why, "user name is empty") ||
         contains(why, "auth store is old") || contains(why, "revision in header is old");
}

// Returns why the server refused. A reply that does not come from a client port of etcd may have no
// reason.
std::string reason_in(const HttpAnswer& answer, const Json& body) {
  std::string why = reason_of(body);
  if (why.empty() && answer.status == 404)
    why = "HTTP 404: no client port of etcd (usually 2379), or its enable-grpc-gateway is off";
  return why;
}

// etcd's leases last whole seconds, so this rounds up.
std::int64_t seconds(Duration ttl) {
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(ttl).count());
}

}  // namespace

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  UrlItems read(items, url, traits, settings);
  Options o;
  static_cast<LoginOptions&>(o) = read.login_options();
  o.native = traits.native;
  if (url.hosts.empty()) read.wrong("host", "", "at least one, as in etcd://H1,H2,H3[/prefix]");
  for (const Url::Host& host : url.hosts)
    o.endpoints.push_back({host.name, host.port.value_or(usual_port)});
  o.tls = read.tls(url.scheme == "etcds", false, "?tls=yes");
  if (!o.user.empty() && o.password.empty())
    read.wrong("user", o.user, "a user with a password (DLOCK_PASSWORD, --password-file)");
  std::string path = url.path;
  while (path.ends_with('/')) path.pop_back();
  o.root = (path.empty() ? "" : path + '/') + read.prefix("dlock/");
  TRY_VOID(read.verdict());
  return o;
}

Client Client::only(std::size_t endpoint) const {
  Options o = options_;
  o.endpoints = {options_.endpoints[endpoint]};
  return Client{std::move(o)};
}

// Call it when the member was silent or broke the connection: the next call goes to another member.
void Client::leave() {
  http_.reset();
  ++moves_;
  at_ = (at_ + 1) % options_.endpoints.size();
}

// A name may resolve to several members, and one of them may be silent. So each round over the
// endpoints begins with another address of the name.
std::unique_ptr<Http> Client::new_connection(Deadline until) {
  return std::make_unique<Http>(options_.endpoints[at_], credentials_.tls(), options_.op_timeout,
                                until, moves_ / options_.endpoints.size());
}

Result<std::unique_ptr<Http>> Client::dial(Deadline until, Deadline heard_by) {
  for (;;) {
    if (options_.tls && !credentials_.tls()) TRY_VOID(credentials_.load());
    const unsigned version = credentials_.version();
    auto http = new_connection(until);
    auto open = http->open(until, heard_by);
    if (open && http->stays_open()) return http;
    if (open) heard_by = no_deadline;  // the peer sent something, and then closed
    else if (open.error().code != Errc::denied || !credentials_.newer_than(version))
      return fail(std::move(open.error()));
  }
}

// Tries one endpoint after the other; if there are several, it tries each of them twice. In the
// first round it leaves an endpoint that sends nothing for 250 ms, so that even a short wait has
// time for the other endpoints. In the second round each endpoint has its whole share of the time.
// If TLS fails at an endpoint, it tries the next one, as after an endpoint that is down. A wrong
// password is wrong at every endpoint, so it ends the attempt. If any endpoint was down, the error
// is Errc::unavailable, because that endpoint may come back.
Result<void> Client::connect(std::string_view what, Deadline until) {
  const std::size_t all = options_.endpoints.size(), most = all > 1 ? 2 * all : 1;
  Error last{Errc::unavailable, "no time was left to connect"};
  bool one_is_down = false;
  for (std::size_t i = 0; !http_ && i < most && Clock::now() < until; ++i) {
    const Deadline now = Clock::now(), by = now + (until - now) / static_cast<int>(all - i % all);
    auto made = dial(by, i + all < most ? later(now, silence_before_next) : by);
    const bool open = made.has_value();
    Result<void> in = open ? login(**made, by) : fail(std::move(made.error()));
    if (in) {
      http_ = std::move(*made);
      return {};
    }
    last = {in.error().code,
            fmt::format("{} at {}: {}", what, options_.where, printable(in.error().message))};
    leave();
    if (open && last.code == Errc::denied) return fail(std::move(last));
    one_is_down |= last.code == Errc::unavailable;
  }
  if (http_) return {};
  if (one_is_down) last.code = Errc::unavailable;
  return fail(std::move(last));
}

Result<void> Client::login(Http& http, Deadline until) {
  if (options_.user.empty() || !token_.empty() || no_auth_) return {};
  for (;;) {
    ++requests;
    const unsigned version = credentials_.version();
    const Json body{{"name", options_.user}, {"password", options_.password}};
    const auto answer =
        http.post("/v3/auth/authenticate",
                  body.dump(-1, ' ', false, Json::error_handler_t::replace), "", until);
    if (!answer) return fail(Errc::unavailable, "no login: " + answer.error().message);
    const Json reply = Json::parse(answer->body, nullptr, false);
    token_ = text_of(reply, "token");
    if (answer->status == 200 && !token_.empty()) return {};
    const std::string why = reason_in(*answer, reply);
    no_auth_ = contains(why, "authentication is not enabled");
    if (no_auth_) return {};
    const bool wrong = contains(why, "invalid user ID or password");
    if (wrong && credentials_.newer_than(version)) continue;
    return fail(wrong ? Errc::denied : Errc::unavailable, why.empty() ? "no login" : why);
  }
}

Result<Client::Reply> Client::judge(std::string_view what, HttpAnswer&& answer) {
  Reply reply{Json::parse(answer.body, nullptr, false)};
  if (answer.date > 0) {
    const std::int64_t from = answer.date * 1'000'000 - wall_micros();
    clock_off_ = std::clamp<std::int64_t>(0, from, from + 1'000'000);
  }
  if (answer.status == 200 && reply.body.is_object()) return reply;
  const std::string why = reason_in(answer, reply.body);
  const auto says = [&](std::string_view part) { return contains(why, part); };
  const auto refuse = [&](Errc code, std::string_view advice = "") {
    return fail(refused(code, what, options_.where, why, advice));
  };
  if (says("requested lease not found")) {
    reply.lease_missing = true;
    return reply;
  }
  if (!options_.user.empty() && wants_login(why)) {
    no_auth_ = false;  // authentication was enabled meanwhile
    logged_out_ = true;
    return refuse(Errc::unavailable);
  }
  if (says("user name is empty")) return refuse(Errc::denied, "name a user in the URL");
  if (says("permission denied")) return refuse(Errc::denied, "dlock-etcd(7) lists the rights");
  if (says("database space exceeded"))
    return refuse(Errc::unavailable, "compact, defragment, then etcdctl alarm disarm");
  if (says("no leader") || says("too many requests") || says("lease already exists"))
    return refuse(Errc::unavailable);
  leave();
  if (says("timed out") || says("leader changed") || says("server stopped") || says("unavailable"))
    return refuse(Errc::timed_out);
  if (why.empty()) return fail(malformed_reply(what, options_.where));
  return refuse(Errc::protocol);
}

Result<Client::Reply> Client::call(std::string_view what, std::string_view path, Json body,
                                   Deadline until, bool repeatable, NewLease* fresh) {
  const std::size_t all = options_.endpoints.size();
  bool unclear = false;
  const auto failed = [&](Error e) {
    if (unclear && e.code == Errc::unavailable) e.code = Errc::timed_out;
    return fail(std::move(e));
  };
  for (std::size_t tries = 0, logins = 0;;) {
    const bool idle = http_ != nullptr;  // the server may have closed an idle connection meanwhile
    if (auto up = connect(what, until); !up) return failed(std::move(up.error()));
    const unsigned version = credentials_.version();
    const bool enough = tries + 1 >= all && (tries > 0 || !idle), last = enough || !repeatable;
    const int shares = last || tries >= all ? 1 : static_cast<int>(all - tries);
    const Deadline by = Clock::now() + (until - Clock::now()) / shares;
    if (fresh) {
      *fresh = {never_used_id(), Clock::now()};
      body["ID"] = std::to_string(fresh->id);
    }
    ++requests;
    auto answer = http_->post(path, body.dump(), token_, by);
    if (answer) {
      if (!http_->stays_open()) http_.reset();
      auto reply = judge(what, std::move(*answer));
      if (reply) reply->unclear = unclear;
      if (std::exchange(logged_out_, false) && logins++ == 0) {
        token_.clear();
        http_.reset();
        continue;
      }
      if (reply) return reply;
      if (last || reply.error().code != Errc::timed_out) return failed(std::move(reply.error()));
    } else {
      leave();
      // With TLS 1.3 the server refuses our certificate only now. Even so, it has not executed the
      // request.
      const bool refused = answer.error().code == Errc::denied;
      const bool over = refused ? enough && !credentials_.newer_than(version) : last;
      if (over || Clock::now() >= until)
        return failed({answer.error().code, fmt::format("{} at {}: {}", what, options_.where,
                                                        printable(answer.error().message))});
      if (refused) {
        ++tries;
        continue;
      }
    }
    unclear = true;
    ++tries;
  }
}

Result<NewLease> Client::grant(std::string_view what, Duration ttl, Deadline until) {
  NewLease lease;
  const Json body{{"TTL", std::to_string(seconds(ttl))}};
  TRY(reply, call(what, "/v3/lease/grant", body, until, true, &lease));
  if (number_of(reply.body, "ID") != lease.id || number_of(reply.body, "TTL") < seconds(ttl))
    return fail(malformed_reply(what, options_.where));
  return lease;
}

Result<TxnAnswer> Client::txn(std::string_view what, const Json& transaction, Deadline until,
                              bool repeatable) {
  TRY(reply, call(what, "/v3/kv/txn", transaction, until, repeatable));
  auto answer = TxnAnswer::of(reply.body);
  if (reply.lease_missing) answer.emplace();
  if (!answer) return fail(malformed_reply(what, options_.where));
  answer->lease_missing = reply.lease_missing;
  answer->unclear = reply.unclear;
  return std::move(*answer);
}

Result<bool> Client::revoke(std::string_view what, std::int64_t lease, Deadline until) {
  TRY(reply, call(what, "/v3/lease/revoke", {{"ID", std::to_string(lease)}}, until));
  return !reply.lease_missing;
}

Result<bool> Client::keep_alive(std::int64_t lease, Deadline until) {
  TRY(reply, call("wait", "/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, until));
  // etcd also replies for a lease that has ended, but without a TTL.
  return !reply.lease_missing && number_of(member(reply.body, "result"), "TTL") > 0;
}

Result<std::optional<Duration>> Client::time_left(std::int64_t lease, Deadline until) {
  TRY(reply, call("inspect", "/v3/lease/timetolive", {{"ID", std::to_string(lease)}}, until));
  const std::int64_t left = number_of(reply.body, "TTL");
  if (reply.lease_missing || left < 0) return std::optional<Duration>{};
  // etcd omits the fraction of a second that is left, so assume half a second.
  return std::optional<Duration>{std::chrono::milliseconds{left * 1000 + 500}};
}

Result<Json> Client::query(std::string_view what, std::string_view path, Json body,
                           Deadline until) {
  TRY(reply, call(what, path, std::move(body), until));
  return std::move(reply.body);
}

Watch Client::watch(const std::string& key, const std::string& end, std::int64_t from, bool puts) {
  Json request{{"key", base64(key)}, {"start_revision", std::to_string(from)}};
  if (!end.empty()) request["range_end"] = base64(end);
  if (!puts) request["filters"] = {"NOPUT"};
  const Json body{{"create_request", std::move(request)}};
  const Deadline by = usual_deadline();
  auto http = new_connection(by);
  http->ask("POST /v3/watch", body.dump(), token_);
  ++requests;
  return {std::move(http), by, moves_};
}

WatchLine Watch::next() {
  for (WatchLine w;;) {
    while (const auto line = http_->next_line()) {
      w = WatchLine::of(*line);
      if (w.created) answer_by_ = no_deadline;
      if (w.over || !w.events.empty()) return w;
    }
    const auto more = http_->complete() ? Result<bool>{false} : http_->step();
    w.over = !more || http_->complete() || Clock::now() >= answer_by_;
    if (w.over || !*more) return w;
  }
}

}  // namespace dlock::etcd
