// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/client.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <algorithm>
#include <random>
#include "core/text.hpp"
#include "redis/wire/exchange.hpp"
#include "redis/wire/server_error.hpp"

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

}  // namespace

Result<std::unique_ptr<Client>> Client::create(Options options) {
  std::unique_ptr<Client> client{new Client{std::move(options)}};
  Client& c = *client;
  TRY_VOID(c.credentials_.load());
  const auto topology = c.options_.topology;
  if (topology == Options::Topology::sentinel) c.locator_ = by_sentinels(c.shared());
  else if (topology == Options::Topology::cluster) c.locator_ = by_slots(c.shared());
  else c.locator_ = std::make_unique<SingleServer>(c.options_.servers.front());
  return client;
}

Deadline Client::usual_deadline() const noexcept {
  return Clock::now() + options_.op_timeout +
         (ever_connected_ ? Duration{} : options_.connect_timeout);
}

Deadline Client::own_time(Deadline by) const noexcept {
  return ever_connected_ ? std::max(by, later(Clock::now(), options_.op_timeout)) : by;
}

Result<std::unique_ptr<Line>> Client::connect(const Endpoint& at, Wait wait) {
  auto line = std::make_unique<Line>(shared(), at);
  line->dial(wait.until, ever_connected_ ? options_.op_timeout : Duration{});
  (void)line->await({no_deadline, wait.interrupt_fd});
  if (line->pending())
    return fail(Errc::unavailable, fmt::format("cannot connect to {}: interrupted", at.text()));
  if (line->closed()) {
    Error e = line->why();
    if (line->mute() && !options_.tls && !ever_connected_ && at.socket.empty())
      e.message += "; does it speak TLS on this port? (rediss://, tls=yes)";
    return fail(std::move(e));
  }
  ever_connected_ = true;
  if (const std::string& policy = line->facts().evicts; !policy.empty())
    warn(fmt::format(
        "{} deletes keys when memory runs out (maxmemory-policy {}), also locks: set noeviction",
        at.text(), printable(policy)));
  return line;
}

void Client::warn(std::string text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
    warnings_.push_back(std::move(text));
}

void Client::watch(const Line& line) noexcept {
  epoll_event e{EPOLLIN | EPOLLRDHUP, {}};
  if (outage_) ::epoll_ctl(outage_.get(), EPOLL_CTL_ADD, line.poll_fd(), &e);
}

Health Client::health() {
  if (!outage_) {
    outage_.reset(::epoll_create1(EPOLL_CLOEXEC));
    for (const auto& line : idle_) watch(*line);
  }
  return {outage_.get(), grants_nothing, warnings_};
}

// So that a request is not the first to notice it, and the event on `outage_` is cleared.
void Client::drop_broken() {
  pollfd rung{outage_.get(), POLLIN, 0};
  if (!outage_ || ::poll(&rung, 1, 0) <= 0) return;
  const Deadline now = Clock::now();
  std::erase_if(idle_, [&](const auto& line) {
    (void)line->next(now);  // TLS has records of its own, which are no reply
    if (line->ready()) return false;
    locator_->invalidate(line->at(), {});
    return true;
  });
}

Result<std::unique_ptr<Line>> Client::take_from(const Endpoint& at, Wait wait) {
  const auto found =
      std::find_if(idle_.begin(), idle_.end(), [&](const auto& line) { return line->at() == at; });
  if (found != idle_.end()) {
    auto line = std::move(*found);
    idle_.erase(found);
    if (outage_) ::epoll_ctl(outage_.get(), EPOLL_CTL_DEL, line->poll_fd(), nullptr);
    return line;
  }
  auto line = with_credentials([&] {
    return connect(at,
                   {std::min(own_time(wait.until), later(Clock::now(), options_.connect_timeout)),
                    wait.interrupt_fd});
  });
  if (line && !(*line)->facts().replica) return line;
  locator_->invalidate(at, {});
  if (line)
    return fail(Errc::unavailable,
                fmt::format("{} is a replica; locks live on the master", at.text()));
  return line;
}

Result<std::unique_ptr<Line>> Client::take(std::string_view key, Wait wait) {
  drop_broken();
  TRY(at, with_credentials([&] {
        return locator_->find(key, {own_time(wait.until), wait.interrupt_fd});
      }));
  return take_from(at, wait);
}

void Client::give_back(std::unique_ptr<Line> line) {
  if (idle_.size() >= most_idle) return;
  watch(*line);
  idle_.push_back(std::move(line));
}

void Client::invalidate(std::unique_ptr<Line> line, std::string_view text) {
  locator_->invalidate(line->at(), text);
  line->close({Errc::unavailable, "given up"});
}

Result<Reply> Client::ask(Line& line, const Command& command) {
  TRY(reply, ask_any(line, command, {}, options_.op_timeout));
  if (reply.is(Reply::Type::error))
    return fail(as_error(command.what, line.at().text(), reply.text));
  return reply;
}

Result<Reply> Client::ask_any(Line& line, const Command& command, Manner manner,
                              Duration patience) {
  line.send(command, manner, later(Clock::now(), patience));
  auto reply = line.await({no_deadline});
  if (!reply)
    return fail(line.why().code,
                fmt::format("{} at {}: {}", command.what, line.at().text(), line.why().message));
  return std::move(*reply);
}

Result<Answer> Client::call(const Command& command) {
  const Deadline by = usual_deadline();
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
    Exchange exchange{*this, command};
    auto answer = exchange.run(connect_by);
    if (answer) {
      answer->repeated = unknown;
      return answer;
    }
    unknown |= exchange.sent();
    const bool at_once = exchange.again() == Exchange::Again::at_once;
    const Deadline next = Clock::now() + (at_once ? Duration{} : pause_before(n));
    if (exchange.again() == Exchange::Again::never || next >= by ||
        (!ever_connected_ && next >= *first_answer_by_)) {
      if (unknown && retryable(answer.error().code)) answer.error().code = Errc::timed_out;
      return answer;
    }
    wait_for(-1, 0, {next});
  }
}

std::string glob_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view{"*?[]\\"}.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace dlock::redis
