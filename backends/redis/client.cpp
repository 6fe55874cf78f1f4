// SPDX-License-Identifier: Apache-2.0
#include "redis/client.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <algorithm>
#include <random>
#include "redis/cluster.hpp"
#include "redis/sentinel.hpp"
#include "redis/socket.hpp"

namespace dlock::redis {
namespace {

constexpr std::size_t most_idle = 8;  // connections kept open for the next command

// Not all clients of a server that comes back may come at the same moment.
Duration pause_before(unsigned attempt) noexcept {
  static thread_local std::minstd_rand random{static_cast<unsigned>(Clock::now().time_since_epoch().count())};
  const Duration most =
      std::min<Duration>(std::chrono::milliseconds{20} * (1U << std::min(attempt, 5U)), std::chrono::milliseconds{500});
  return most / 2 + Duration{random() % static_cast<unsigned>(most.count() / 2)};
}

void pause_until(Deadline until) noexcept {
  while (!wait_for(-1, 0, {until})) {
    if (Clock::now() >= until) return;
  }
}

}  // namespace

void Command::put(Connection& connection, bool by_text) const {
  std::vector<std::string_view> out;
  out.reserve(keys.size() + words.size() + 3);
  const std::string count = fmt::format_int(keys.size()).str();
  if (script) {
    out.insert(out.end(), {by_text ? "EVAL" : "EVALSHA", by_text ? script->text : script->sha, count});
    out.insert(out.end(), keys.begin(), keys.end());
  }
  out.insert(out.end(), words.begin(), words.end());
  connection.add(out);
}

Result<std::unique_ptr<Client>> Client::create(Options options) {
  std::optional<TlsContext> tls;
  if (options.tls) {
    auto made = TlsContext::create(*options.tls);
    if (!made) return fail(std::move(made.error()));
    tls = std::move(*made);
  }
  std::unique_ptr<Client> client{new Client{std::move(options)}};
  Client& c = *client;
  c.tls_ = std::move(tls);
  const TlsContext* const context = c.tls_ ? &*c.tls_ : nullptr;
  switch (c.options_.topology) {
    case Options::Topology::independent:  // of these each has a Client of its own
    case Options::Topology::single: c.locator_ = std::make_unique<SingleServer>(c.options_.servers.front()); break;
    case Options::Topology::sentinel: c.locator_ = std::make_unique<SentinelLocator>(c.options_, context, c.requests); break;
    case Options::Topology::cluster: c.locator_ = std::make_unique<ClusterLocator>(c.options_, context, c.requests); break;
  }
  return client;
}

Deadline Client::usual_deadline() const noexcept {
  return Clock::now() + options_.op_timeout + (ever_connected_ ? Duration{} : options_.connect_timeout);
}

Result<std::unique_ptr<Session>> Client::connect(const Endpoint& at, Wait wait) {
  auto connection = Connection::open(at, tls_ ? &*tls_ : nullptr, options_.op_timeout, wait);
  if (!connection) return fail(std::move(connection.error()));
  auto facts = greet(**connection, options_, wait, requests);
  if (!facts) return fail(std::move(facts.error()));
  ever_connected_ = true;
  return std::make_unique<Session>(Session{std::move(*connection), at, *facts});
}

Result<std::unique_ptr<Session>> Client::take_from(const Endpoint& at, Wait wait) {
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& s) { return s->at == at; });
  if (found != idle_.end()) {
    auto session = std::move(*found);
    idle_.erase(found);
    return session;
  }
  wait.until = std::min(wait.until, Clock::now() + options_.connect_timeout);
  auto session = connect(at, wait);
  if (session && !(*session)->facts.replica) return session;
  locator_->mistrust(at, {});
  if (session) return fail(Errc::unavailable, fmt::format("{} is a replica; locks live on the master", at.text()));
  return session;
}

Result<std::unique_ptr<Session>> Client::take(std::string_view key, Wait wait) {
  const auto at = locator_->find(key, wait);
  if (!at) return fail(at.error());
  return take_from(*at, wait);
}

Result<Reply> Client::ask(Session& session, const Command& command) {
  auto reply = exchange(session, command, false, {Clock::now() + options_.op_timeout});
  if (reply && reply->is(Reply::Type::error)) return fail(as_error(command.what, session.at.text(), reply->text));
  return reply;
}

void Client::give_back(std::unique_ptr<Session> session) {
  session->used = true;
  if (idle_.size() < most_idle) idle_.push_back(std::move(session));
}

void Client::mistrust(std::unique_ptr<Session> session, std::string_view text) {
  locator_->mistrust(session->at, text);
  session->connection->abandon();
}

Result<std::int64_t> Client::copies(Session& session, unsigned wanted) {
  const auto patience = options_.op_timeout / 2;
  const auto ms = std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  Command wait{"wait for replicas", nullptr, {}, {"WAIT", fmt::format_int(wanted).str(), fmt::format_int(ms).str()}};
  auto reply = ask(session, wait);
  if (!reply) return fail(std::move(reply.error()));
  return reply->integer;
}

Result<Reply> Client::exchange(Session& session, const Command& command, bool by_text, Wait wait) {
  command.put(*session.connection, by_text);
  ++requests;
  const auto described = [&](Errc code, std::string_view why) {
    return fail(code, fmt::format("{} at {}: {}", command.what, session.at.text(), why));
  };
  if (auto ok = session.connection->flush(wait); !ok) return described(ok.error().code, ok.error().message);
  auto reply = session.connection->receive(wait);
  if (!reply) return described(reply.error().code, reply.error().message);
  if (!*reply) return described(Errc::timed_out, "no answer in time");
  return std::move(**reply);
}

struct Client::Attempt {
  std::optional<Answer> answer;
  Error error{Errc::unavailable, ""};
  bool sent = false;   // without an answer: it may have been carried out
  bool again = false;  // it makes sense to try again
  bool at_once = false;
};

Client::Attempt Client::attempt(const Command& command, Deadline connect_by, Deadline by, unsigned wanted) {
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
  if (command.grants) answer.grace_left = session->facts.grace_left(options_.restart_grace);
  if (answer.grace_left > Duration{}) {
    made.answer = std::move(answer);
    give_back(std::move(session));
    return made;
  }
  answer.sent = Clock::now();
  auto reply = exchange(*session, command, false, {by});
  if (reply && reply->is(Reply::Type::error) && classify(reply->text).remedy == Remedy::send_text) {
    answer.sent = Clock::now();
    reply = exchange(*session, command, true, {by});
  }
  if (reply && !reply->is(Reply::Type::error) && wanted > 0) {
    const auto have = copies(*session, wanted);
    if (have) answer.copies = *have;
    else reply = fail(have.error());
  }
  if (!reply) {
    made.error = std::move(reply.error());
    made.sent = made.again = true;
    made.at_once = used;  // the server had closed an idle connection, most likely
    mistrust(std::move(session));
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
  made.again = remedy == Remedy::elsewhere || remedy == Remedy::later;
  if (remedy == Remedy::elsewhere) mistrust(std::move(session), reply->text);
  else give_back(std::move(session));
  return made;
}

Result<Answer> Client::call(const Command& command, Deadline by, unsigned wanted) {
  bool unknown = false;
  const Deadline first_answer_by = std::min(by, later(Clock::now(), options_.connect_timeout));
  for (unsigned n = 0;; ++n) {
    const Deadline connect_by = ever_connected_ ? by : first_answer_by;  // a server that never answered gets no more than this
    Attempt made = attempt(command, connect_by, by, wanted);
    if (made.answer) {
      made.answer->repeated = unknown;
      return std::move(*made.answer);
    }
    unknown |= made.sent;
    const Deadline next = Clock::now() + (made.at_once ? Duration{} : pause_before(n));
    if (!made.again || next >= by || (!ever_connected_ && next >= connect_by)) {
      if (unknown && retryable(made.error.code)) made.error.code = Errc::timed_out;
      return fail(std::move(made.error));
    }
    pause_until(next);
  }
}

}  // namespace dlock::redis
