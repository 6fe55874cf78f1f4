// SPDX-License-Identifier: Apache-2.0
#include "redlock/masters.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "core/owner.hpp"
#include "core/text.hpp"

namespace dlock::redlock {

namespace {

using namespace std::chrono_literals;

constexpr Duration first_pause = 20ms, longest_pause = 1s;  // the pause between tries to connect
constexpr std::size_t most_owed = 64;

// How long to wait for slow masters: three times as long as the majority needed, within bounds.
Duration slower_than(Duration elapsed, Duration most) {
  return std::min(most, std::max<Duration>(elapsed * 3, 2ms));
}

Duration since(Deadline t) { return std::chrono::duration_cast<Duration>(Clock::now() - t); }

}  // namespace

// ---- one master ---------------------------------------------------------------------------------

void Node::connect() {
  const Deadline now = Clock::now();
  if (!line_.closed() || now < again_) return;
  began_ = now;
  line_.dial(later(now, shared_.options.connect_timeout), shared_.options.op_timeout);
  std::vector<Response> none;
  advance(none);
}

void Node::send(const Call& call, std::uint64_t number) {
  const Deadline now = Clock::now();
  const redis::Command command{"ask", call.script, call.keys, call.args};
  const std::string id = call.script ? std::to_string(number) : "";
  const bool by_text = std::ranges::find(known_, call.script) == known_.end();
  // A plain command may block on the server (BLPOP), so it has no deadline.
  const Deadline answer_by =
      call.script ? later(now, std::max<Duration>(shared_.options.op_timeout, 500ms)) : no_deadline;
  line_.send(command, {.by_text = by_text, .number = id}, answer_by);
  under_way_.push_back({number, call, now});
  line_.push();
}

void Node::send_or_owe(Call call, std::uint64_t number) {
  if (ready()) send(call, number);
  else if (owed_.size() < most_owed) owed_.push_back(std::move(call));
}

void Node::advance(std::vector<Response>& out) {
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
  for (const Call& call : std::exchange(owed_, {}))
    if (now < call.pointless) send(call, 0);
}

void Node::receive(Reply answer, std::vector<Response>& out) {
  const UnderWay first = under_way_.front();
  if (first.call.script) usual_ = std::chrono::duration_cast<Duration>(Clock::now() - first.sent);
  const bool refused = answer.is(Reply::Type::error);
  if (!refused && first.call.script &&
      answer.number_at(0) != static_cast<std::int64_t>(first.number))
    return line_.close({Errc::protocol, "a reply to another request"});
  under_way_.pop_front();
  if (!refused) {
    if (std::ranges::find(known_, first.call.script) == known_.end())
      known_.push_back(first.call.script);
    out.push_back({first.number, std::move(answer)});
    return;
  }
  const bool unknown = redis::classify(answer.text).remedy == redis::Remedy::send_text;
  if (unknown) known_.clear();
  if (unknown && first.call.must_arrive) return send(first.call, first.number);
  out.push_back({first.number, fail(redis::as_error("ask", at().text(), answer.text)), unknown});
}

void Node::closed(std::vector<Response>& out) {
  why_ = line_.why_there();
  // The master refused credentials that the files no longer contain, so the next try may succeed.
  if (why_.code == Errc::denied && shared_.credentials.newer_than(line_.credentials())) {
    why_.code = Errc::unavailable;
    pause_ = {};
  }
  pause_ = std::clamp<Duration>(pause_ * 2, first_pause, longest_pause);
  again_ =
      later(Clock::now(), pause_ / 2 + pause_ * static_cast<long>(Owner::random().bytes[0]) / 512);
  for (UnderWay& u : under_way_) {
    if (u.call.must_arrive && owed_.size() < most_owed) owed_.push_back(std::move(u.call));
    out.push_back({u.number, fail(Errc::timed_out, why_.message)});
  }
  under_way_.clear();
  known_.clear();
}

// ---- all masters --------------------------------------------------------------------------------

Calls same(Call call, std::function<bool(std::size_t)> whom) {
  return [call = std::move(call), whom = std::move(whom)](std::size_t i) {
    return !whom || whom(i) ? std::optional{call} : std::nullopt;
  };
}

std::size_t count(const Votes& votes, const std::function<bool(const Vote&)>& is) {
  return static_cast<std::size_t>(std::ranges::count_if(votes, is));
}

Masters::Masters(const redis::Options& options, Credentials& credentials, std::uint64_t& requests)
    : options_(options) {
  nodes_.reserve(options.servers.size());
  for (const auto& at : options.servers)
    nodes_.emplace_back(redis::Connection::Shared{options, credentials, requests}, at);
}

std::size_t Masters::ready() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(nodes_, &Node::ready));
}

bool Masters::votes(std::size_t i) const noexcept {
  return nodes_[i].ready() && nodes_[i].facts().grace_left(options_.restart_grace) == Duration{};
}

std::size_t Masters::voting() const noexcept {
  std::size_t n = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) n += votes(i);
  return n;
}

Duration Masters::grace_left() const noexcept {
  std::vector<Duration> left;
  for (const Node& n : nodes_)
    if (n.ready()) left.push_back(n.facts().grace_left(options_.restart_grace));
  if (left.size() < majority()) return {};
  std::ranges::sort(left);
  return left[majority() - 1];
}

bool Masters::refused() const noexcept {
  const auto against = std::ranges::count_if(nodes_, &Node::refused);
  return !majority_without(static_cast<std::size_t>(against));
}

Error Masters::too_few() const {
  Error e{Errc::unavailable, ""};
  std::string why;
  for (const Node& n : nodes_) {
    if (n.ready()) continue;
    if (n.refused() && refused()) e.code = n.why().code;
    add_part(why, n.pending() ? n.at().text() + ": no answer in time" : n.why().message, "; ");
  }
  e.message = fmt::format("only {} of {} masters can be asked, {} are needed: {}", ready(), size(),
                          majority(), why);
  return e;
}

Result<void> Masters::gather(Deadline by, Duration patience, bool insist) {
  const Deadline began = Clock::now();
  receive(began, {}, false);  // take the replies that have arrived meanwhile
  for (bool waited = false;; waited = true) {
    for (Node& n : nodes_) n.connect();
    if (refused()) break;
    const bool enough = ready() >= majority();
    if (enough && waited && !had_majority_) majority_time_ = since(began);
    had_majority_ = enough && (waited || had_majority_);
    const Duration slow = slower_than(std::max<Duration>(majority_time_, 2ms), patience);
    Deadline until{};
    for (const Node& n : nodes_)
      if (n.pending())
        until = std::max(until, enough ? std::min(by, later(n.pending_since(), slow)) : by);
    if (insist && ready() < majority()) {
      until = by;  // or until the first master may be tried again
      for (const Node& n : nodes_)
        if (!n.ready() && !n.pending()) until = std::min(until, n.again());
    }
    if (Clock::now() >= std::min(until, by)) {
      if (insist && ready() < majority() && Clock::now() < by) continue;
      break;
    }
    if (!receive(until, {}, true)) break;  // interrupted
  }
  TRY_VOID(all_different());
  if (insist && ready() < majority()) return fail(too_few());
  return {};
}

Result<void> Masters::all_different() const {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (nodes_[i].ready() && nodes_[j].ready() && !nodes_[i].facts().run_id.empty() &&
          nodes_[i].facts().run_id == nodes_[j].facts().run_id)
        return fail(Errc::usage, "{} and {} are the same server: it would vote twice",
                    nodes_[j].at().text(), nodes_[i].at().text());
  return {};
}

bool Masters::receive(Deadline by, const std::function<void(std::size_t, const Response&)>& each,
                      bool interruptible) {
  std::vector<redis::Connection*> lines;
  for (Node& n : nodes_) lines.push_back(&n.line());
  for (bool enough = false; !enough;) {
    if (!redis::wait_for_any(lines, {by, interruptible ? options_.interrupt_fd : -1})) return false;
    enough = Clock::now() >= by;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const bool was_pending = nodes_[i].pending();
      std::vector<Response> got;
      nodes_[i].advance(got);
      enough |= !got.empty() || nodes_[i].pending() != was_pending;
      if (!each) continue;
      for (const Response& h : got) each(i, h);
    }
  }
  return true;
}

void Masters::pause(Deadline until) {
  while (Clock::now() < until) receive(until, {}, false);
}

Votes Masters::call(const Calls& make, Deadline by,
                    const std::function<bool(const Votes&)>& decided, Stragglers stragglers) {
  Votes votes(size());
  std::vector<std::optional<Call>> calls(size());
  const std::uint64_t number = next_number();
  const auto note = [&](std::size_t i, const Response& h) {
    Vote& v = votes[i];
    if (h.number != number || !v.open()) return;
    if (h.reply) {
      v.state = Vote::State::answered;
      v.reply = *h.reply;
      v.elapsed = since(v.sent_at);
      v.wall_received = wall_micros();
    } else if (h.unknown_script && !v.again && nodes_[i].ready() && nodes_[i].idle()) {
      // Send the script again only if no later request is in flight on this connection: executed
      // late, the script could take the place of that request. If the node is not ready, the
      // connection ended after the reply.
      nodes_[i].send(*calls[i], number);
      v.again = true;
    } else {
      v.state = Vote::State::failed;
      v.why = h.reply.error();
    }
  };
  const Deadline began = Clock::now();
  std::vector<bool> owes(size());
  for (std::size_t i = 0; i < size(); ++i) owes[i] = !nodes_[i].idle();
  for (std::size_t i = 0; i < size(); ++i) {
    if (!nodes_[i].ready() || !(calls[i] = make(i))) continue;
    votes[i].state = Vote::State::under_way;
    votes[i].sent_at = Clock::now();
    nodes_[i].send(*calls[i], number);
  }
  std::optional<Duration> elapsed;  // from the first request to the decision
  const auto patient = [&] {
    const Duration most = stragglers.most;
    Deadline until = later(began, stragglers.all_of ? most : slower_than(*elapsed, most));
    for (std::size_t i = 0; stragglers.usual && i < size(); ++i)
      if (votes[i].open() && !owes[i])
        until = std::max(until, later(began, slower_than(nodes_[i].usual(), most)));
    return std::min(by, until);
  };
  while (count(votes, [](const Vote& v) { return v.open(); }) > 0) {
    if (!elapsed && decided(votes)) elapsed = since(began);
    const Deadline until = elapsed ? patient() : by;
    if (Clock::now() >= until) break;
    receive(until, note, false);
  }
  return votes;
}

void Masters::send(const Calls& make) {
  for (std::size_t i = 0; i < size(); ++i) {
    auto call = make(i);
    if (!call) continue;
    if (call->must_arrive) nodes_[i].send_or_owe(std::move(*call), next_number());
    else if (nodes_[i].ready()) nodes_[i].send(*call, next_number());
  }
}

std::optional<Error> hopeless(const Votes& votes, std::size_t majority) {
  const auto is_final = [](const Vote& v) { return v.failed() && !retryable(v.why.code); };
  if (count(votes, is_final) <= votes.size() - majority) return std::nullopt;
  return std::ranges::find_if(votes, is_final)->why;
}

}  // namespace dlock::redlock
