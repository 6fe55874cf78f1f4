// SPDX-License-Identifier: Apache-2.0
#include "postgresql/client/client.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock::postgresql {
namespace {

constexpr std::size_t most_idle = 4;
constexpr int answers_of_login = 4;  // address, TLS, password, settings
}  // namespace

Deadline Client::usual_deadline() const noexcept {
  return later(Clock::now(),
               options_.op_timeout + (ever_connected_ ? Duration{} : options_.connect_timeout));
}

std::uint64_t Client::exchanges() const noexcept {
  std::uint64_t n = exchanges_;
  for (const auto& c : idle_) n += c->exchanges();
  for (const Connection* c : out_) n += c->exchanges();
  return n;
}

Result<std::unique_ptr<Connection>> Client::take(Deadline until, bool writer) {
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
    const Duration share = std::max<Duration>(left, Duration{1'000}) /
                           static_cast<Duration::rep>(options_.servers.size() - tried);
    const Server& server = options_.servers[server_];
    // One that was reached before may be far away, or slow.
    const bool alone = ever_connected_ && options_.servers.size() == 1;
    const Duration timeout =
        std::min(options_.connect_timeout, alone ? answers_of_login * options_.op_timeout : share);
    auto c = Connection::open(options_, server, timeout);
    if (!c && c.error().code == Errc::denied && read_password_again(options_))
      c = Connection::open(options_, server, timeout);
    if (c && (!writer || !(*c)->facts().read_only)) {
      ever_connected_ = true;
      out_.push_back(c->get());
      return c;
    }
    if (c)
      last = {Errc::unavailable, fmt::format("{} is read-only (a standby, or made so): locks live "
                                             "on the server that writes",
                                             server.text())};
    else last = std::move(c.error());
    if (!retryable(last.code)) break;
    server_ = (server_ + 1) % options_.servers.size();
  }
  return fail(std::move(last));
}

void Client::give_back(std::unique_ptr<Connection> c) {
  if (!c) return;
  if (c->remedy() == Remedy::elsewhere) {
    server_ = (server_ + 1) % options_.servers.size();
    idle_.clear();
    c->distrust();
  }
  if (c->broken() || c->under_way() || !c->locks.empty() || idle_.size() >= most_idle)
    return drop(std::move(c));
  std::erase(out_, c.get());
  idle_.push_back(std::move(c));
}

void Client::drop(std::unique_ptr<Connection> c) {
  if (!c) return;
  std::erase(out_, c.get());
  exchanges_ += c->exchanges();
}

bool Client::pause(unsigned failures, Deadline until) const {
  const Duration d = pause_after(failures);
  return later(Clock::now(), d) < until && nap(d, options_.interrupt_fd);
}

// In one transaction, one client after the other: two at a time would be refused. Not where another
// schema has tables of dlock already: two users with different search_paths would not exclude each
// other, and would not learn of it.
Result<void> Client::create(Connection& c, Deadline until) {
  std::string one_line;
  for (const char ch : schema_) one_line += ch == '\n' ? ' ' : ch;
  const Statement all{
      "",
      fmt::format("DO $dlock$ DECLARE other name; BEGIN "
                  "PERFORM pg_advisory_xact_lock(7236279150174207999); "
                  "SELECT relnamespace::regnamespace INTO other FROM pg_class WHERE "
                  "relname IN ('dlock_lock','dlock_advisory') AND relkind='r' ORDER BY "
                  "relnamespace::regnamespace::name<>current_schema() LIMIT 1; "
                  "IF other<>current_schema() THEN RAISE 'schema % has tables of dlock: it must "
                  "come first in the search_path of this account, or tables be made in schema %, "
                  "for locks of its own',other,current_schema(); END IF; {}; END $dlock$",
                  schema_)};
  const auto made = c.query("create the tables", {all}, until);
  if (made) return {};
  const bool lost = c.sqlstate().empty();
  if (retryable(made.error().code) && (lost || c.remedy() != Remedy::none))
    return fail(made.error());
  return fail(Errc::cannot_create,
              fmt::format("{}. An account with that right must run in database {}: {}",
                          made.error().message, printable(options_.database), one_line));
}

}  // namespace dlock::postgresql
