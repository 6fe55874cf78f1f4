// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/client.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <algorithm>
#include <random>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "redis/wire/cluster_locator.hpp"
#include "redis/wire/sentinel_locator.hpp"
#include "redis/wire/socket.hpp"

namespace dlock::redis {
namespace {

constexpr std::size_t most_idle = 8;  // connections kept open for the next command

// Random, as not all clients of a server that comes back may come at the same moment.
Duration pause_before(unsigned attempt) noexcept {
  static thread_local std::minstd_rand random{
      static_cast<unsigned>(Clock::now().time_since_epoch().count())};
  const Duration most =
      std::min<Duration>(std::chrono::milliseconds{20} * (1U << std::min(attempt, 5U)),
                         std::chrono::milliseconds{500});
  return most / 2 + Duration{random() % static_cast<unsigned>(most.count() / 2)};
}

void pause_until(Deadline until) noexcept {
  while (!wait_for(-1, 0, {until})) {
    if (Clock::now() >= until) return;
  }
}

}  // namespace

void Command::put(Connection& connection, Manner manner) const {
  std::vector<std::string_view> out;
  out.reserve(keys.size() + words.size() + 3);
  const std::size_t named = manner.alone ? enough : keys.size();
  const std::string count = fmt::format_int(named).str();
  if (manner.asking) connection.add({"ASKING"});
  if (script) {
    out.insert(out.end(), {manner.by_text ? "EVAL" : "EVALSHA",
                           manner.by_text ? script->text : script->sha, count});
    out.insert(out.end(), keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(named));
  }
  out.insert(out.end(), words.begin(), words.end());
  connection.add(out);
}

Result<std::unique_ptr<Client>> Client::create(Options options) {
  std::unique_ptr<Client> client{new Client{std::move(options)}};
  Client& c = *client;
  TRY_VOID(c.credentials_.load());
  const TlsContext* const context = c.credentials_.tls();
  switch (c.options_.topology) {
    case Options::Topology::independent:  // each of these has its own Client
    case Options::Topology::single:
      c.locator_ = std::make_unique<SingleServer>(c.options_.servers.front());
      break;
    case Options::Topology::sentinel:
      c.locator_ = std::make_unique<SentinelLocator>(c.options_, context, c.requests);
      break;
    case Options::Topology::cluster:
      c.locator_ = std::make_unique<ClusterLocator>(c.options_, context, c.requests);
      break;
  }
  return client;
}

Deadline Client::usual_deadline() const noexcept {
  return Clock::now() + options_.op_timeout +
         (ever_connected_ ? Duration{} : options_.connect_timeout);
}

Deadline Client::own_time(Deadline by) const noexcept {
  return ever_connected_ ? std::max(by, later(Clock::now(), options_.op_timeout)) : by;
}

Result<std::unique_ptr<Session>> Client::connect(const Endpoint& at, Wait wait) {
  const unsigned version = credentials_.version();
  TRY(connection, Connection::open(at, credentials_.tls(), options_.op_timeout, wait));
  wait.until = own_time(wait.until);
  auto facts = greet(*connection, options_, wait, requests);
  if (!facts) {
    Error e = std::move(facts.error());
    if (!options_.tls && !ever_connected_ && !connection->heard() && at.socket.empty())
      e.message += "; does it speak TLS on this port? (rediss://, tls=yes)";
    return fail(std::move(e));
  }
  ever_connected_ = true;
  if (!facts->evicts.empty())
    warn(fmt::format(
        "{} deletes keys when memory runs out (maxmemory-policy {}), also locks: set noeviction",
        at.text(), printable(facts->evicts)));
  return std::make_unique<Session>(Session{std::move(connection), at, *facts, false, version});
}

void Client::warn(std::string text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
    warnings_.push_back(std::move(text));
}

void Client::watch(const Session& session) noexcept {
  epoll_event e{EPOLLIN | EPOLLRDHUP, {}};
  if (outage_) ::epoll_ctl(outage_.get(), EPOLL_CTL_ADD, session.connection->poll_fd(), &e);
}

Health Client::health() {
  if (!outage_) {
    outage_.reset(::epoll_create1(EPOLL_CLOEXEC));
    for (const auto& s : idle_) watch(*s);
  }
  return {outage_.get(), grants_nothing, warnings_};
}

// So that a request is not the first to notice it, and the event on `outage_` is cleared.
void Client::drop_broken() {
  pollfd rung{outage_.get(), POLLIN, 0};
  if (!outage_ || ::poll(&rung, 1, 0) <= 0) return;
  std::erase_if(idle_, [&](const auto& s) {
    // TLS has records of its own, which are no reply
    const auto said = s->connection->receive({Deadline{}});
    if (said && !*said) return false;
    locator_->invalidate(s->at, {});
    return true;
  });
}

Result<std::unique_ptr<Session>> Client::take_from(const Endpoint& at, Wait wait) {
  const auto found =
      std::find_if(idle_.begin(), idle_.end(), [&](const auto& s) { return s->at == at; });
  if (found != idle_.end()) {
    auto session = std::move(*found);
    idle_.erase(found);
    if (outage_) ::epoll_ctl(outage_.get(), EPOLL_CTL_DEL, session->connection->poll_fd(), nullptr);
    return session;
  }
  auto session = with_credentials([&] {
    return connect(at,
                   {std::min(own_time(wait.until), later(Clock::now(), options_.connect_timeout)),
                    wait.interrupt});
  });
  if (session && !(*session)->facts.replica) return session;
  locator_->invalidate(at, {});
  if (session)
    return fail(Errc::unavailable,
                fmt::format("{} is a replica; locks live on the master", at.text()));
  return session;
}

Result<std::unique_ptr<Session>> Client::take(std::string_view key, Wait wait) {
  drop_broken();
  const auto at = with_credentials([&] {
    return locator_->find(key, {own_time(wait.until), wait.interrupt});
  });
  if (!at) return fail(at.error());
  return take_from(*at, wait);
}

Result<std::vector<Endpoint>> Client::servers() {
  return with_credentials([&] { return locator_->everyone({usual_deadline()}); });
}

Result<Reply> Client::ask(Session& session, const Command& command) {
  auto reply = exchange(session, command, {}, {Clock::now() + options_.op_timeout});
  if (reply && reply->is(Reply::Type::error))
    return fail(as_error(command.what, session.at.text(), reply->text));
  return reply;
}

void Client::give_back(std::unique_ptr<Session> session) {
  session->used = true;
  if (idle_.size() >= most_idle) return;
  watch(*session);
  idle_.push_back(std::move(session));
}

void Client::invalidate(std::unique_ptr<Session> session, std::string_view text) {
  locator_->invalidate(session->at, text);
  session->connection->abandon();
}

Result<std::int64_t> Client::copies(Session& session, unsigned wanted) {
  const auto patience = options_.op_timeout / 2;
  const auto ms = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  Command wait{"wait for replicas",
               nullptr,
               {},
               {"WAIT", fmt::format_int(wanted).str(), fmt::format_int(ms).str()}};
  TRY(reply, ask(session, wait));
  return reply.integer;
}

Result<Released> Client::none_found(std::string_view what, const Answer& answer) const {
  if (answer.grace_left == Duration{}) return Released::was_not_held;
  return fail(Errc::unavailable, fmt::format("{} at {}: no holder is found; {}", what,
                                             options_.where, unread(answer)));
}

std::optional<Client::Detour> Client::detour(const Session& session, const Command& command,
                                             const Reply& reply, Manner manner) const {
  if (!reply.is(Reply::Type::error)) return std::nullopt;
  const ServerError e = classify(reply.text);
  if (e.remedy == Remedy::send_text && !manner.by_text) {
    manner.by_text = true;
    return Detour{std::nullopt, manner};
  }
  if (options_.topology != Options::Topology::cluster) return std::nullopt;
  if (const auto ask = parse_ask(reply.text, session.at); ask && !manner.asking) {
    manner.by_text = false;
    manner.asking = true;
    return Detour{ask->to, manner};
  }
  if (e.word == "TRYAGAIN" && command.enough > 0 && !manner.alone) {
    manner.alone = true;
    return Detour{std::nullopt, manner};
  }
  return std::nullopt;
}

Result<Reply> Client::exchange(Session& session, const Command& command, Manner manner, Wait wait) {
  command.put(*session.connection, manner);
  ++requests;
  const auto described = [&](Errc code, std::string_view why) {
    return fail(code, fmt::format("{} at {}: {}", command.what, session.at.text(), why));
  };
  if (auto ok = session.connection->flush(wait); !ok)
    return described(ok.error().code, ok.error().message);
  auto reply = session.connection->receive(wait);
  if (manner.asking && reply && *reply) reply = session.connection->receive(wait);
  if (!reply) return described(reply.error().code, reply.error().message);
  if (!*reply) return described(Errc::timed_out, "no answer in time");
  return std::move(**reply);
}

struct Client::Attempt {
  std::optional<Answer> answer;
  Error error{Errc::unavailable, ""};
  bool sent = false;   // without an answer: it may have been carried out
  bool again = false;  // a retry may help
  bool at_once = false;
};

Client::Attempt Client::attempt(const Command& command, Deadline connect_by, Deadline by,
                                unsigned wanted) {
  Attempt made;
  auto taken = take(command.keys.front(), {connect_by});
  if (!taken) {
    made.error = std::move(taken.error());
    made.again = retryable(made.error.code);
    return made;
  }
  auto session = std::move(*taken);
  const bool used = session->used;
  Answer answer;
  Result<Reply> reply;
  for (std::optional<Detour> way = Detour{}; way;) {
    if (way->to) {
      auto there = take_from(*way->to, {by});
      give_back(std::move(session));
      if (!there) {
        made.error = std::move(there.error());
        made.again = retryable(made.error.code);
        return made;
      }
      session = std::move(*there);
    }
    answer.grace_left =
        std::max(answer.grace_left, session->facts.grace_left(options_.restart_grace));
    if (command.grants && answer.grace_left > Duration{}) {
      made.answer = std::move(answer);
      give_back(std::move(session));
      return made;
    }
    answer.sent = Clock::now();
    reply = exchange(*session, command, way->manner, {later(answer.sent, options_.op_timeout)});
    way = reply ? detour(*session, command, *reply, way->manner) : std::nullopt;
  }
  if (reply && !reply->is(Reply::Type::error) && wanted > 0) {
    const auto have = copies(*session, wanted);
    if (have) answer.copies = *have;
    else reply = fail(have.error());
  }
  if (!reply) {
    made.error = std::move(reply.error());
    made.sent = made.again = true;
    made.at_once = used;  // most likely the server had closed an idle connection
    invalidate(std::move(session));
    return made;
  }
  if (!reply->is(Reply::Type::error)) {
    answer.reply = std::move(*reply);
    made.answer = std::move(answer);
    give_back(std::move(session));
    return made;
  }
  made.error = as_error(command.what, session->at.text(), reply->text);
  const Remedy remedy = classify(reply->text).remedy;
  const bool renewed =
      made.error.code == Errc::denied && credentials_.newer_than(session->credentials);
  made.again = remedy == Remedy::elsewhere || remedy == Remedy::later || renewed;
  if (remedy == Remedy::elsewhere || renewed) invalidate(std::move(session), reply->text);
  else give_back(std::move(session));
  return made;
}

Result<Answer> Client::call(const Command& command, Deadline by, unsigned wanted) {
  bool unknown = false;
  // A server that never answered is retried for this long from the first call on; later calls try
  // once each.
  if (!first_answer_by_) first_answer_by_ = later(Clock::now(), options_.connect_timeout);
  const bool too_late = Clock::now() >= *first_answer_by_;
  for (unsigned n = 0;; ++n) {
    const Deadline connect_by =
        ever_connected_ ? by
                        : std::min(by, too_late ? later(Clock::now(), options_.connect_timeout)
                                                : *first_answer_by_);
    Attempt made = attempt(command, connect_by, by, wanted);
    if (made.answer) {
      made.answer->repeated = unknown;
      return std::move(*made.answer);
    }
    unknown |= made.sent;
    const Deadline next = Clock::now() + (made.at_once ? Duration{} : pause_before(n));
    if (!made.again || next >= by || (!ever_connected_ && next >= *first_answer_by_)) {
      if (unknown && retryable(made.error.code)) made.error.code = Errc::timed_out;
      return fail(std::move(made.error));
    }
    pause_until(next);
  }
}

}  // namespace dlock::redis
