// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/client.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock::mysql {
namespace {

constexpr std::size_t most_idle = 4;
constexpr Duration longest_look{1'000'000};  // at the other hosts of a URL
// of a login, in times of one answer: address, greeting, TLS, password
constexpr int answers_of_login = 4;
}  // namespace

Deadline Client::usual_deadline() const noexcept {
  return later(Clock::now(),
               options_.op_timeout + (ever_connected_ ? Duration{} : options_.connect_timeout));
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
    // With several nodes none may use up the time of the others. One that was reached before may
    // be far away.
    const Duration share = std::max<Duration>(left, Duration{1'000}) /
                           static_cast<Duration::rep>(options_.servers.size() - tried);
    const bool alone = ever_connected_ && options_.servers.size() == 1;
    const auto open = [&] {
      return Connection::open(
          options_, options_.servers[server_],
          std::min(options_.connect_timeout, alone ? options_.op_timeout : share),
          ever_connected_ ? answers_of_login : 1);
    };
    auto c = open();
    if (!c && c.error().code == Errc::denied && read_password_again(options_)) c = open();
    auto known = c ? know_cluster(**c, until) : Result<void>(fail(c.error()));
    if (known) {
      ever_connected_ = true;
      (*c)->least_time = options_.op_timeout;
      out_.push_back(c->get());
      return c;
    }
    last = std::move(known.error());
    if (!retryable(last.code)) break;
    server_ = (server_ + 1) % options_.servers.size();
  }
  return fail(std::move(last));
}

// Two independent servers would each grant the lock. Those that answer now are asked at once, the
// others when they are used.
Result<void> Client::know_cluster(const Connection& c, Deadline until) {
  if (options_.servers.size() < 2) return {};
  TRY_VOID(same_cluster(c));
  if (std::exchange(cluster_known_, true)) return {};
  const Deadline end = std::min(until, later(Clock::now(), longest_look));
  for (const Server& at : options_.servers) {
    if (at.text() == c.at().text()) continue;
    const Duration left = std::chrono::duration_cast<Duration>(end - Clock::now());
    if (left <= Duration{}) break;
    auto other = Connection::open(options_, at, std::min(options_.connect_timeout, left));
    if (!other) continue;
    statements_ += (*other)->statements();
    const auto same = same_cluster(**other);
    (*other)->close();
    if (!same && !retryable(same.error().code)) {
      cluster_known_ = false;
      return same;
    }
  }
  return {};
}

Result<void> Client::same_cluster(const Connection& c) {
  constexpr std::string_view none = "00000000-0000-0000-0000-000000000000";
  const auto refuse = [&](std::string_view what) {
    return fail(
        Errc::usage,
        fmt::format(
            "{}: {}; several hosts in a URL are nodes of one Galera cluster, so name one server",
            options_.where, what));
  };
  const std::string& seen = c.facts().cluster;
  if (!c.facts().galera)
    return refuse(fmt::format("{} is no node of a Galera cluster", c.at().text()));
  if (seen.empty() || seen == none)
    return fail(Errc::unavailable, fmt::format("{} has not joined its cluster", c.at().text()));
  if (cluster_.empty()) {
    cluster_ = seen;
    cluster_at_ = c.at().text();
  }
  if (seen != cluster_)
    return refuse(
        fmt::format("{} and {} belong to different clusters", cluster_at_, c.at().text()));
  return {};
}

Result<std::unique_ptr<Connection>> Client::take_writer(Deadline until) {
  Result<void> writes;
  for (std::size_t tried = 0; tried < options_.servers.size(); ++tried) {
    auto c = take(until);
    if (!c) return c;
    writes = writable((*c)->at().text(), (*c)->facts().read_only);
    if (writes) return c;
    std::erase(out_, c->get());
    statements_ += (*c)->statements();
    (*c)->close();
    server_ = (server_ + 1) % options_.servers.size();
  }
  return fail(std::move(writes.error()));
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

Result<void> Client::erase(const Rows& rows, const std::string& name) {
  const Deadline until = usual_deadline();
  TRY_VOID(run_if_there<Answer>([&](Connection& c) {
    return c.query("remove",
                   fmt::format("DELETE FROM `{}` WHERE `{}`={}{}", rows.table, rows.column,
                               rows.text ? text_hex(name) : hex(name), rows.also),
                   until);
  }));
  return {};
}

Result<std::optional<Answer>> Client::end_wait(Connection& waiting) {
  const Deadline until = usual_deadline();
  TRY_VOID(run<Answer>(until, "", [&](Connection& c) {
    return c.query("end the wait", fmt::format("KILL QUERY {}", waiting.facts().thread), until);
  }));
  return waiting.receive({until});
}

void Client::drop(std::unique_ptr<Connection> c) {
  if (!c) return;
  std::erase(out_, c.get());
  statements_ += c->statements();
}

bool Client::pause(unsigned failures, Deadline until) const {
  const Duration d = pause_after(failures);
  return later(Clock::now(), d) < until && nap(d, options_.interrupt_fd);
}

bool Client::may_repeat(const Connection& c, const Error& e, Deadline until, unsigned failures) {
  if (!retryable(e.code)) return false;
  // One that waited too long has used its time; a connection that broke at once is replaced at
  // once.
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
  if (retryable(made.error().code) || remedy == Remedy::later) return fail(made.error());
  return fail(Errc::cannot_create,
              fmt::format("{}. An account with that right must run in database {}: {}",
                          made.error().message, printable(options_.database), one_line));
}

}  // namespace dlock::mysql
