// SPDX-License-Identifier: Apache-2.0
#include "redlock/node.hpp"
#include <algorithm>
#include <utility>
#include "core/owner.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr Duration first_pause = 20ms, longest_pause = 1s;  // between attempts to connect
constexpr std::size_t most_owed = 64;

}  // namespace

void Node::connect() {
  const Deadline now = Clock::now();
  if (!line_.closed() || now < again_) return;
  began_ = now;
  line_.dial(later(now, shared_.options.connect_timeout), shared_.options.op_timeout);
  std::vector<Heard> none;
  advance(none);
}

void Node::send(const Ask& ask, std::uint64_t number) {
  const Deadline now = Clock::now();
  const redis::Command command{"ask", ask.script, ask.keys, ask.words};
  const std::string id = ask.script ? std::to_string(number) : "";
  const bool by_text = std::find(known_.begin(), known_.end(), ask.script) == known_.end();
  // A plain command blocks on the server (BLPOP).
  const Deadline answer_by =
      ask.script ? later(now, std::max<Duration>(shared_.options.op_timeout, 500ms)) : no_deadline;
  line_.send(command, {.by_text = by_text, .number = id}, answer_by);
  under_way_.push_back(
      {number, ask.script, now, ask.must_arrive ? std::optional{ask} : std::nullopt});
  line_.push();
}

void Node::send_or_owe(Ask ask, std::uint64_t number) {
  if (ready()) send(ask, number);
  else if (owed_.size() < most_owed) owed_.push_back(std::move(ask));
}

void Node::advance(std::vector<Heard>& out) {
  if (line_.closed()) return;
  const bool was_pending = pending();
  while (auto reply = line_.next(Clock::now())) receive(std::move(*reply), out);
  if (was_pending && ready()) became_ready();
  if (line_.closed()) closed(out);
}

void Node::became_ready() {
  if (facts().replica)
    return line_.close({Errc::unavailable, "it is a replica; a vote is a master's"});
  if (facts().cluster)
    return line_.close(
        {Errc::usage, "it is a node of a cluster; redlock needs independent masters"});
  pause_ = {};
  const Deadline now = Clock::now();
  for (const Ask& ask : std::exchange(owed_, {}))
    if (now < ask.pointless) send(ask, 0);
}

void Node::receive(Reply answer, std::vector<Heard>& out) {
  const UnderWay asked = under_way_.front();
  if (asked.script) usual_ = std::chrono::duration_cast<Duration>(Clock::now() - asked.sent);
  const bool refused = answer.is(Reply::Type::error);
  if (!refused && asked.script && answer.number_at(0) != static_cast<std::int64_t>(asked.number))
    return line_.close({Errc::protocol, "a reply to another request"});
  under_way_.pop_front();
  if (!refused) {
    if (std::find(known_.begin(), known_.end(), asked.script) == known_.end())
      known_.push_back(asked.script);
    out.push_back({asked.number, std::move(answer)});
    return;
  }
  const bool unknown = redis::classify(answer.text).remedy == redis::Remedy::send_text;
  if (unknown) known_.clear();
  if (unknown && asked.owed) return send(*asked.owed, asked.number);
  out.push_back({asked.number, fail(redis::as_error("ask", at().text(), answer.text)), unknown});
}

void Node::closed(std::vector<Heard>& out) {
  why_ = line_.why_there();
  // It refuses what the files do not say any more: the next attempt may succeed.
  if (why_.code == Errc::denied && shared_.credentials.newer_than(line_.credentials())) {
    why_.code = Errc::unavailable;
    pause_ = {};
  }
  pause_ = std::clamp<Duration>(pause_ * 2, first_pause, longest_pause);
  again_ =
      later(Clock::now(), pause_ / 2 + pause_ * static_cast<long>(Owner::random().bytes[0]) / 512);
  for (UnderWay& u : under_way_) {
    if (u.owed && owed_.size() < most_owed) owed_.push_back(std::move(*u.owed));
    out.push_back({u.number, fail(Errc::timed_out, why_.message)});
  }
  under_way_.clear();
  known_.clear();
}

}  // namespace dlock::redlock
