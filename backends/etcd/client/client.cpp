// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/client.hpp"
#include <fmt/format.h>
#include <sys/random.h>
#include <algorithm>
#include <cstdlib>
#include "core/text.hpp"
#include "util/secret_file.hpp"

namespace dlock::etcd {
namespace {

std::int64_t never_used_id() {
  std::int64_t id = 0;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) std::abort();
  return (id & INT64_MAX) | 1;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// The whole seconds that etcd counts in.
std::int64_t seconds(Duration ttl) {
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(ttl).count());
}

}  // namespace

Client Client::only(std::size_t endpoint) const {
  Options o = options_;
  o.endpoints = {options_.endpoints[endpoint]};
  return Client{std::move(o)};
}

// Of a member that was silent or broke off: the next call goes to another one.
void Client::leave() {
  http_.reset();
  ++moves_;
  at_ = (at_ + 1) % options_.endpoints.size();
}

Result<std::unique_ptr<Http>> Client::dial(std::size_t endpoint, Wait wait) {
  const Url::Host& at = options_.endpoints[endpoint];
  for (bool again = false;; again = true) {
    const bool old = tls_ != nullptr;
    if (options_.tls && !tls_) {
      TRY(made, make_tls(*options_.tls));
      tls_ = std::move(made);
    }
    auto stream = Stream::open(at, tls_, wait);
    if (stream)
      return std::make_unique<Http>(std::move(*stream), fmt::format("{}:{}", at.name, *at.port));
    // the files may have been changed since they were read
    if (stream.error().code == Errc::denied) tls_.reset();
    if (stream.error().code != Errc::denied || !old || again)
      return fail(stream.error().code, fmt::format("cannot connect to {}:{}: {}", at.name, *at.port,
                                                   stream.error().message));
  }
}

Result<void> Client::connect(std::string_view what, Deadline until) {
  const std::size_t all = options_.endpoints.size();
  Error last{Errc::unavailable, "no time was left to connect"};
  for (std::size_t i = 0; !http_ && i < all && Clock::now() < until; ++i) {
    const auto share = (until - Clock::now()) / static_cast<int>(all - i);
    const Wait wait{Clock::now() + share};
    auto made = dial(at_, wait);
    if (!made) {
      last = std::move(made.error());
      last.message = fmt::format("{} at {}: {}", what, options_.where, printable(last.message));
      leave();
      continue;
    }
    http_ = std::move(*made);
    if (options_.user.empty() || !token_.empty() || no_auth_) break;
    if (auto in = login(what, wait); !in) {
      last = std::move(in.error());
      leave();
      if (last.code == Errc::denied) break;
    }
  }
  if (http_) return {};
  return fail(std::move(last));
}

bool Client::secrets_changed() {
  if (options_.password_file.empty()) return false;
  auto now = read_secret(options_.password_file);
  if (!now || *now == options_.password) return false;
  options_.password = std::move(*now);
  return true;
}

Result<void> Client::login(std::string_view what, Wait wait) {
  for (;;) {
    ++requests;
    const Json body{{"name", options_.user}, {"password", options_.password}};
    auto answer = http_->post("/v3/auth/authenticate",
                              body.dump(-1, ' ', false, Json::error_handler_t::replace), "", wait);
    if (!answer)
      return fail(Errc::unavailable, fmt::format("{} at {}: no login: {}", what, options_.where,
                                                 printable(answer.error().message)));
    const Json reply = Json::parse(answer->body, nullptr, false);
    token_ = text_of(reply, "token");
    if (answer->status == 200 && !token_.empty()) return {};
    const std::string why = reason_of(reply);
    no_auth_ = contains(why, "authentication is not enabled");
    if (no_auth_) return {};
    if (contains(why, "invalid user ID or password")) {
      if (secrets_changed()) continue;
      return fail(refused(Errc::denied, what, options_.where, why, ""));
    }
    return fail(
        refused(Errc::unavailable, what, options_.where, why.empty() ? "no login" : why, ""));
  }
}

Result<Client::Reply> Client::judge(std::string_view what, HttpAnswer&& answer) {
  Reply reply{Json::parse(answer.body, nullptr, false)};
  if (answer.date > 0) {
    const std::int64_t from = answer.date * 1'000'000 - wall_micros();
    clock_off_ = std::clamp<std::int64_t>(0, from, from + 1'000'000);
  }
  if (answer.status == 200 && reply.body.is_object()) return reply;
  const std::string why = reason_of(reply.body);
  const auto says = [&](std::string_view part) { return contains(why, part); };
  const auto refuse = [&](Errc code, std::string_view advice = "") {
    return fail(refused(code, what, options_.where, why, advice));
  };
  if (says("requested lease not found")) {
    reply.lease_missing = true;
    return reply;
  }
  logged_out_ = says("invalid auth token") || says("revision in header is old");
  if (logged_out_) return refuse(Errc::unavailable);
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

template <class Body>
Result<Client::Reply> Client::call(std::string_view what, std::string_view path, const Body& body,
                                   Deadline until, bool repeatable) {
  const std::size_t all = options_.endpoints.size();
  bool unclear = false;
  const auto failed = [&](Error e) {
    if (unclear && e.code == Errc::unavailable) e.code = Errc::timed_out;
    return fail(std::move(e));
  };
  for (std::size_t tries = 0, logins = 0;;) {
    const bool idle = http_ != nullptr;  // the server may have closed it meanwhile
    if (auto up = connect(what, until); !up) return failed(std::move(up.error()));
    const bool last = !repeatable || (tries + 1 >= all && (tries > 0 || !idle));
    const int shares = last || tries >= all ? 1 : static_cast<int>(all - tries);
    const auto left = (until - Clock::now()) / shares;
    ++requests;
    auto answer = http_->post(path, body().dump(), token_, {Clock::now() + left});
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
      if (last || answer.error().code == Errc::denied || Clock::now() >= until)
        return failed({answer.error().code, fmt::format("{} at {}: {}", what, options_.where,
                                                        printable(answer.error().message))});
    }
    unclear = true;
    ++tries;
  }
}

Result<NewLease> Client::grant(std::string_view what, Duration ttl, Deadline until) {
  NewLease lease;
  const auto body = [&]() -> Json {
    lease = {never_used_id(), Clock::now()};
    return {{"ID", std::to_string(lease.id)}, {"TTL", std::to_string(seconds(ttl))}};
  };
  TRY(reply, call(what, "/v3/lease/grant", body, until, true));
  if (number_of(reply.body, "ID") != lease.id || number_of(reply.body, "TTL") < seconds(ttl))
    return fail(malformed_reply(what, options_.where));
  return lease;
}

Result<TxnAnswer> Client::txn(std::string_view what, const Json& transaction, Deadline until,
                              bool repeatable) {
  TRY(reply,
      call(
          what, "/v3/kv/txn", [&]() -> const Json& { return transaction; }, until, repeatable));
  if (reply.lease_missing) {
    TxnAnswer a;
    a.lease_missing = true;
    a.unclear = reply.unclear;
    return a;
  }
  auto a = TxnAnswer::of(reply.body);
  if (!a) return fail(malformed_reply(what, options_.where));
  a->unclear = reply.unclear;
  return std::move(*a);
}

Result<bool> Client::revoke(std::string_view what, std::int64_t lease, Deadline until) {
  const Json body{{"ID", std::to_string(lease)}};
  TRY(reply, call(
                 what, "/v3/lease/revoke", [&]() -> const Json& { return body; }, until, true));
  return !reply.lease_missing;
}

Result<bool> Client::keep_alive(std::int64_t lease, Deadline until) {
  const Json body{{"ID", std::to_string(lease)}};
  TRY(reply,
      call(
          "wait", "/v3/lease/keepalive", [&]() -> const Json& { return body; }, until, true));
  // a lease that has ended is answered, too, without its TTL
  return !reply.lease_missing && number_of(member(reply.body, "result"), "TTL") > 0;
}

Result<std::optional<Duration>> Client::time_left(std::int64_t lease, Deadline until) {
  const Json body{{"ID", std::to_string(lease)}};
  TRY(reply,
      call(
          "inspect", "/v3/lease/timetolive", [&]() -> const Json& { return body; }, until, true));
  const std::int64_t left = number_of(reply.body, "TTL");
  if (reply.lease_missing || left < 0) return std::optional<Duration>{};
  return std::optional<Duration>{std::chrono::seconds{left}};
}

Result<Json> Client::ask(std::string_view what, std::string_view path, const Json& body,
                         Deadline until) {
  TRY(reply, call(
                 what, path, [&]() -> const Json& { return body; }, until, true));
  return std::move(reply.body);
}

Result<std::unique_ptr<Watch>> Client::watch(const std::string& key, const std::string& end,
                                             std::int64_t from, bool puts, Deadline until) {
  TRY_VOID(connect("watch", until));  // where the calls go, with its login
  const Wait wait{until};
  auto http = dial(at_, wait);
  if (!http) {
    leave();
    return fail(std::move(http.error()));
  }
  Json request{{"key", base64(key)}, {"start_revision", std::to_string(from)}};
  if (!end.empty()) request["range_end"] = base64(end);
  if (!puts) request["filters"] = {"NOPUT"};
  ++requests;
  const Json body{{"create_request", std::move(request)}};
  const auto status = (*http)->start("/v3/watch", body.dump(), token_, wait);
  const auto line = status ? (*http)->next_line(wait) : std::optional<std::string>{};
  if (line && *line) {
    const WatchLine first = WatchLine::of(**line);
    if (first.created && !first.over) return std::make_unique<Watch>(std::move(*http));
    token_.clear();  // it may have ended
    http_.reset();
  } else {
    leave();
  }
  return fail(no_answer("watch", options_.where));
}

WatchLine Watch::next(Wait wait) {
  auto line = http_->next_line(wait);
  WatchLine w;
  w.over = !line;
  if (line && *line) w = WatchLine::of(**line);
  return w;
}

}  // namespace dlock::etcd
