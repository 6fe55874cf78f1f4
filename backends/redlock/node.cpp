// SPDX-License-Identifier: Apache-2.0
#include "redlock/node.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <algorithm>
#include "core/owner.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr Duration first_pause = 20ms, longest_pause = 1s;  // between attempts to connect
constexpr std::size_t most_owed = 64;

}  // namespace

Node::Node(const redis::Options& options, redis::Endpoint at, redis::Credentials& credentials,
           std::uint64_t& requests)
    : options_(options), at_(std::move(at)), credentials_(credentials), requests_(requests) {}

void Node::connect() {
  const Deadline now = Clock::now();
  if (state_ != State::closed || now < again_) return;
  began_ = now;
  give_up_ = later(began_, options_.connect_timeout);
  version_ = credentials_.version();
  connection_ = redis::Connection::start(at_, credentials_.tls(), options_.op_timeout, give_up_);
  state_ = State::opening;
  std::vector<Heard> none;
  advance(none);
}

void Node::drop(Error why, std::vector<Heard>* out) {
  if (connection_ && state_ != State::opening) connection_->abandon();
  greeting_.reset();
  connection_.reset();
  state_ = State::closed;
  why_ = std::move(why);
  // It refuses what the files do not say any more: the next attempt may succeed.
  if (why_.code == Errc::denied && credentials_.newer_than(version_)) {
    why_.code = Errc::unavailable;
    pause_ = {};
  }
  pause_ = std::clamp<Duration>(pause_ * 2, first_pause, longest_pause);
  again_ =
      later(Clock::now(), pause_ / 2 + pause_ * static_cast<long>(Owner::random().bytes[0]) / 512);
  for (UnderWay& u : under_way_) {
    if (u.owed && owed_.size() < most_owed) owed_.push_back(std::move(*u.owed));
    if (out) out->push_back({u.number, fail(Errc::timed_out, why_.message)});
  }
  under_way_.clear();
  known_.clear();
}

void Node::send(const Ask& ask, std::uint64_t number) {
  const bool by_text = std::find(known_.begin(), known_.end(), ask.script) == known_.end();
  std::vector<std::string_view> words;
  const std::string key_count = std::to_string(ask.keys.size()), id = std::to_string(number);
  if (ask.script) {
    words = {by_text ? "EVAL" : "EVALSHA", by_text ? ask.script->text : ask.script->sha, key_count};
    words.insert(words.end(), ask.keys.begin(), ask.keys.end());
    words.push_back(id);
  }
  words.insert(words.end(), ask.words.begin(), ask.words.end());
  connection_->add(words);
  ++requests_;
  // A plain command blocks on the server (BLPOP).
  under_way_.push_back({number, ask.script, Clock::now(),
                        ask.script
                            ? later(Clock::now(), std::max<Duration>(options_.op_timeout, 500ms))
                            : no_deadline,
                        ask.must_arrive ? std::optional{ask} : std::nullopt});
  (void)connection_->push();  // if it fails, the next advance fails as well
}

void Node::send_or_owe(Ask ask, std::uint64_t number) {
  if (ready()) send(ask, number);
  else if (owed_.size() < most_owed) owed_.push_back(std::move(ask));
}

int Node::poll_fd() const noexcept { return connection_ ? connection_->poll_fd() : -1; }
short Node::poll_events() const noexcept { return connection_ ? connection_->poll_events() : 0; }
Deadline Node::poll_until() const noexcept {
  switch (state_) {
    case State::closed: return again_;
    case State::opening: return std::min(give_up_, connection_->poll_until());
    case State::greeting: return give_up_;
    case State::ready: break;
  }
  return under_way_.empty() ? no_deadline : under_way_.front().answer_by;
}

void Node::advance(std::vector<Heard>& out) {
  if (!connection_) return;
  if (auto ok = step(out); !ok) {
    Error why = std::move(ok.error());
    if (why.message.find(at_.text()) == std::string::npos)
      why.message = fmt::format("{}: {}", at_.text(), why.message);
    drop(std::move(why), &out);
  }
}

Result<void> Node::step(std::vector<Heard>& out) {
  if (state_ == State::opening) {
    TRY(open, connection_->step_open());
    if (!open && Clock::now() >= give_up_) return fail(Errc::unavailable, "no answer in time");
    if (!open) return {};
    state_ = State::greeting;
    give_up_ = std::max(give_up_, later(Clock::now(), options_.op_timeout));
    greeting_.emplace(options_, *connection_, requests_);
  }
  if (auto ok = connection_->push(); !ok) return ok;
  if (state_ == State::greeting) {
    for (;;) {
      TRY(reply, connection_->receive({Deadline{}}));
      if (!reply) break;
      TRY(facts, greeting_->hear(std::move(*reply)));
      if (auto ok = connection_->push(); !ok) return ok;
      if (!facts) continue;
      facts_ = std::move(*facts);
      return became_ready();
    }
    if (Clock::now() >= give_up_) return fail(Errc::unavailable, "no answer in time");
    return {};
  }
  return listen(out);
}

Result<void> Node::became_ready() {
  greeting_.reset();
  if (facts_.replica) return fail(Errc::unavailable, "it is a replica; a vote is a master's");
  if (facts_.cluster)
    return fail(Errc::usage, "it is a node of a cluster; redlock needs independent masters");
  state_ = State::ready;
  pause_ = {};
  const Deadline now = Clock::now();
  for (const Ask& ask : std::exchange(owed_, {}))
    if (now < ask.pointless) send(ask, 0);
  return connection_->push();
}

Result<void> Node::listen(std::vector<Heard>& out) {
  for (;;) {
    TRY(reply, connection_->receive({Deadline{}}));
    if (!reply) break;
    if (under_way_.empty()) return fail(Errc::protocol, "an unexpected reply");
    const UnderWay asked = std::move(under_way_.front());
    if (asked.script) usual_ = std::chrono::duration_cast<Duration>(Clock::now() - asked.sent);
    Reply& answer = *reply;
    if (answer.is(Reply::Type::error)) {
      const bool unknown = redis::classify(answer.text).remedy == redis::Remedy::send_text;
      under_way_.pop_front();
      if (unknown) known_.clear();
      if (unknown && asked.owed) {
        send(*asked.owed, asked.number);
        continue;
      }
      out.push_back({asked.number, fail(redis::as_error("ask", at_.text(), answer.text)), unknown});
      continue;
    }
    if (asked.script && answer.number_at(0) != static_cast<std::int64_t>(asked.number))
      return fail(Errc::protocol, "a reply to another request");
    under_way_.pop_front();
    if (std::find(known_.begin(), known_.end(), asked.script) == known_.end())
      known_.push_back(asked.script);
    out.push_back({asked.number, std::move(answer)});
  }
  if (!under_way_.empty() && Clock::now() >= under_way_.front().answer_by)
    return fail(Errc::timed_out, "no answer in time");
  return connection_->push();
}

}  // namespace dlock::redlock
