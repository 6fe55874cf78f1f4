// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/connection.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <utility>
#include "util/wait.hpp"

namespace dlock::redis {

void Connection::dial(Deadline by, Duration greeting) {
  until_ = by;
  own_greeting_ = greeting;
  version_ = shared_.credentials.version();
  used_ = false;
  facts_ = {};
  info_.clear();
  login_.reset();
  connection_ =
      std::make_unique<RespStream>(at_, shared_.credentials.tls(), shared_.options.op_timeout, by);
  state_ = State::dialling;
}

void Connection::close(Error why) {
  if (!connection_) return;
  mute_ = state_ == State::greeting && !connection_->received();
  // While dialling, close in the normal way, so that the server learns the reason (a TLS alert).
  if (state_ != State::dialling) connection_->abandon();
  connection_.reset();
  awaited_.clear();
  why_ = std::move(why);
  if (std::exchange(state_, State::closed) == State::ready) return;
  why_ = why_there();
  if (why_.code == Errc::protocol) why_.code = Errc::unavailable;  // nothing was requested yet
}

Error Connection::why_there() const {
  const std::string name = at_.text();
  if (why_.message.find(name) != std::string::npos) return why_;
  return {why_.code, fmt::format("{}: {}", name, why_.message)};
}

void Connection::send(std::span<const std::string_view> command, Deadline answer_by) {
  if (ready()) put(About::request, command, answer_by);
}

void Connection::put(About about, std::span<const std::string_view> command, Deadline due) {
  connection_->add(command);
  ++shared_.requests;
  awaited_.push_back({about, due});
}

void Connection::send(const Command& command, Manner manner, Deadline answer_by,
                      std::string_view last) {
  const auto& keys = command.keys;
  const auto* script = command.script;
  std::vector<std::string_view> out;
  out.reserve(keys.size() + command.args.size() + 5);
  const std::size_t named = manner.alone ? command.enough : keys.size();
  const std::string count = fmt::format_int(named).str();
  if (manner.asking) send({"ASKING"}, answer_by);
  if (script) {
    out.insert(out.end(), {manner.by_text ? "EVAL" : "EVALSHA",
                           manner.by_text ? script->text : script->sha, count});
    out.insert(out.end(), keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(named));
  }
  if (!manner.number.empty()) out.push_back(manner.number);
  out.insert(out.end(), command.args.begin(), command.args.end());
  if (!last.empty()) out.push_back(last);
  send(out, answer_by);
}

void Connection::push() {
  if (connection_ && ready()) (void)connection_->push();  // if push() fails, next() fails, too
}

Deadline Connection::poll_until() const noexcept {
  if (!connection_) return no_deadline;
  const Deadline due = awaited_.empty() ? no_deadline : awaited_.front().due;
  return std::min(state_ == State::dialling ? until_ : due, connection_->poll_until());
}

std::optional<Reply> Connection::next(Deadline now) {
  if (closed()) return std::nullopt;
  auto reply = step(now);
  if (reply) return std::move(*reply);
  close(std::move(reply.error()));
  return std::nullopt;
}

Result<std::optional<Reply>> Connection::step(Deadline now) {
  if (state_ != State::dialling && connection_->leave_silent(now)) {
    awaited_.clear();
    state_ = State::dialling;
  }
  if (state_ == State::dialling) TRY_VOID(open(now));
  while (state_ != State::dialling) {
    TRY_VOID(connection_->push());
    TRY(reply, connection_->receive());
    if (!reply) break;
    if (awaited_.empty()) return fail(Errc::protocol, "an unexpected reply");
    const About about = awaited_.front().about;
    awaited_.pop_front();
    if (ready()) {
      used_ = true;
      return reply;
    }
    TRY_VOID(on_reply(about, *reply));
    if (awaited_.empty() && login_) return fail(std::move(*login_));
    if (awaited_.empty()) {  // later bytes are read when a request asks for them
      facts_.read(info_);
      state_ = State::ready;
      break;
    }
  }
  TRY_VOID(in_time(now));
  return std::optional<Reply>{};
}

Result<void> Connection::in_time(Deadline now) const {
  if (now < (state_ == State::dialling ? until_ : poll_until())) return {};
  if (state_ == State::dialling && !connection_->dialling())
    return fail(Errc::unavailable, "cannot connect to {}: no TLS handshake in time{}", at_.text(),
                connection_->received() ? "" : " (does it speak TLS on this port?)");
  if (pending()) return fail(Errc::unavailable, "no answer in time");
  return fail(Errc::timed_out,
              connection_->unsent() ? "the server takes no data" : "no answer in time");
}

std::optional<Reply> Connection::await(Wait wait) {
  bool fresh = connection_ && awaited_.size() == 1 && connection_->unsent();
  push();
  for (;; fresh = false) {
    // A request that was sent just now cannot have a reply yet.
    auto reply = fresh ? std::nullopt : next(Clock::now());
    if (reply || closed() || (ready() && idle())) return reply;
    if (wait_for(poll_fd(), poll_events(), {std::min(wait.until, poll_until()), wait.interrupt_fd}))
      continue;
    if (wait.over() || wait.interrupted()) return std::nullopt;
  }
}

// ---- the greeting ------------------------------------------------------------------------------

Result<void> Connection::open(Deadline now) {
  TRY(done, connection_->step_open(now));
  if (!done) return {};
  until_ = std::max(until_, later(now, own_greeting_));
  state_ = State::ready;
  if (greeting_ == Greeting::full) greet();
  return {};
}

void Connection::greet() {
  const Options& o = shared_.options;
  const auto request = [&](About about, std::initializer_list<std::string_view> command) {
    put(about, {command.begin(), command.size()}, until_);
  };
  state_ = State::greeting;
  if (!o.password.empty() && o.user.empty()) request(About::login, {"AUTH", o.password});
  if (!o.password.empty() && !o.user.empty()) request(About::login, {"AUTH", o.user, o.password});
  for (const char* section : {"server", "replication", "memory"})
    request(About::facts, {"INFO", section});
  // SELECT comes last: a sentinel has no databases, and its reply to INFO must first show that it
  // is a sentinel.
  if (o.database != 0) request(About::database, {"SELECT", fmt::format_int(o.database).str()});
}

// Handles a reply of the greeting. Errc::protocol: it is not a reply to the command.
Result<void> Connection::on_reply(About about, Reply& reply) {
  const Options& o = shared_.options;
  std::string what = about == About::login ? "log in" : "identify the server";
  if (about == About::database) what = fmt::format("select database {}", o.database);
  if (reply.is(Reply::Type::error)) {
    Error refused = as_login_error(what, at_.text(), reply.text, o.password);
    if (about == About::login && refused.code == Errc::protocol) refused.code = Errc::denied;
    // Keep this error for later: the next reply shows whether the server is a sentinel.
    if (about == About::login && reply.text.find("without any password") != reply.text.npos) {
      login_ = std::move(refused);
      return {};
    }
    return fail(std::move(refused));
  }
  if (about == About::facts ? !reply.is(Reply::Type::string) : reply.text != "OK")
    return fail(malformed_reply(what, at_.text()));
  if (about == About::facts && info_field(reply.text, "redis_mode") == "sentinel")
    return fail(Errc::usage,
                "{0} is a sentinel: use redis+sentinel://{0}/MASTER, with "
                "the name of the master",
                at_.text());
  if (about == About::facts) info_ += reply.text;
  return {};
}

bool wait_for_any(std::span<Connection* const> lines, Wait wait) {
  std::vector<pollfd> watched;
  for (const Connection* line : lines) {
    if (line->closed()) continue;
    watched.push_back({line->poll_fd(), line->poll_events(), 0});
    wait.until = std::min(wait.until, line->poll_until());
  }
  watched.push_back({wait.interrupt_fd, POLLIN, 0});
  (void)wait_until(watched, wait.until);
  return watched.back().revents == 0;
}

}  // namespace dlock::redis
