// SPDX-License-Identifier: Apache-2.0
#include "mysql/client.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/key.hpp"

namespace dlock::mysql {
namespace {

constexpr std::size_t most_idle = 4;
constexpr Duration first_pause{2'000}, longest_pause{250'000};

// Not in step with the others who met the same trouble.
Duration jittered(Duration d) noexcept {
  const auto r = static_cast<Duration::rep>(Clock::now().time_since_epoch().count() / 64 % 1024);
  return d / 2 + d * r / 2048;
}

}  // namespace

bool nap(Duration d, int interrupt_fd) noexcept {
  const Deadline until = later(Clock::now(), d);
  wait_for(-1, 0, {until, interrupt_fd});
  return Clock::now() >= until;
}

Deadline Client::usual_deadline() const noexcept {
  return later(Clock::now(), options_.op_timeout + (ever_connected_ ? Duration{} : options_.connect_timeout));
}

std::uint64_t Client::statements() const noexcept {
  std::uint64_t n = statements_;
  for (const auto& c : idle_) n += c->statements();
  for (const Connection* c : out_) n += c->statements();
  return n;
}

Result<std::unique_ptr<Connection>> Client::take(Deadline until) {
  if (!idle_.empty()) {
    auto c = std::move(idle_.back());
    idle_.pop_back();
    out_.push_back(c.get());
    return c;
  }
  Error last{Errc::unavailable, "no time was left to connect"};
  for (std::size_t tried = 0; tried < options_.servers.size(); ++tried) {
    const Duration left = std::chrono::duration_cast<Duration>(until - Clock::now());
    if (left <= Duration{} && tried > 0) break;
    // With several nodes none may use up the time of the others.
    const Duration share =
        std::max<Duration>(left, Duration{1'000}) / static_cast<Duration::rep>(options_.servers.size() - tried);
    auto c = Connection::open(options_, options_.servers[server_], std::min(options_.connect_timeout, share));
    if (c) {
      ever_connected_ = true;
      out_.push_back(c->get());
      return c;
    }
    last = std::move(c.error());
    if (!retryable(last.code)) break;
    server_ = (server_ + 1) % options_.servers.size();
  }
  return fail(std::move(last));
}

void Client::give_back(std::unique_ptr<Connection> c) {
  if (!c) return;
  std::erase(out_, c.get());
  if (c->broken() || c->under_way() || !c->names.empty() || idle_.size() >= most_idle) {
    statements_ += c->statements();
    if (c->remedy() == Remedy::elsewhere) server_ = (server_ + 1) % options_.servers.size();
    if (!c->broken() && !c->under_way() && c->names.empty()) c->close();
    return;
  }
  idle_.push_back(std::move(c));
}

void Client::drop(std::unique_ptr<Connection> c) {
  if (!c) return;
  std::erase(out_, c.get());
  statements_ += c->statements();
}

bool Client::pause(unsigned failures, Deadline until) const {
  const Duration d = jittered(std::min<Duration>(longest_pause, first_pause * (1LL << std::min(failures, 10u))));
  if (later(Clock::now(), d) >= until) return false;
  return nap(d, options_.interrupt_fd);
}

bool Client::may_repeat(const Connection& c, const Error& e, Deadline until, unsigned failures) {
  if (!retryable(e.code)) return false;
  // What waited too long has had its time; a connection that broke at once is replaced at once.
  if (e.code == Errc::timed_out && c.error_number() == 0) return false;
  if (c.remedy() == Remedy::elsewhere) {
    for (auto& idle : idle_) {  // of the same server
      statements_ += idle->statements();
      idle->close();
    }
    idle_.clear();
    if (options_.servers.size() == 1) return false;
  }
  return pause(failures, until);
}

Result<void> Client::create(Connection& c, std::string_view schema, Deadline until) {
  std::string one_line;
  for (const char ch : schema) one_line += ch == '\n' ? ' ' : ch;
  const auto made = c.query("create the tables", schema, until);
  if (made) return {};
  const Remedy remedy = c.remedy();
  if (retryable(made.error().code) || remedy == Remedy::again) return fail(made.error());
  return fail(Errc::cannot_create, fmt::format("{}. Somebody who may must run in database {}: {}", made.error().message,
                                               printable(options_.database), one_line));
}

}  // namespace dlock::mysql
