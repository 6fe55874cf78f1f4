// SPDX-License-Identifier: Apache-2.0
#include "simulation/database.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "common/holders.hpp"
#include "simulation/ensemble.hpp"
#include "simulation/sql_text.hpp"

namespace dlock::simulation {
namespace {

constexpr Nanos looks_at_clients = second;  // who waits for a name is asked so often if it is there
constexpr unsigned deadlock = 1213, row_wait_timeout = 1205, interrupted = 1317;

bool writes_locks(std::string_view statement) {
  return statement.starts_with("UPDATE dlock_lock") ||
         statement.starts_with("INSERT IGNORE INTO dlock_lock");
}

}  // namespace

std::string Database::name_of(std::string_view request) const {
  std::string rest{request}, names;
  for (Fields f = take_frame(rest); !f.empty(); f = take_frame(rest)) {
    if (!names.empty()) names += ", ";
    names += f[0] == "query"
                 ? fmt::format("\"{}{}\"", f[1].substr(0, 90), f[1].size() > 90 ? "..." : "")
                 : f[0];
  }
  return names;
}

// A quiet or loud release of a grant that is known, and the end of a wait.
bool Database::undoes(std::string_view request) const {
  return request.find(" AND waiters<=") != request.npos ||
         request.find("DELETE FROM dlock_wait") != request.npos;
}

// ---- requests ----------------------------------------------------------------------------------

void Database::serve(const LinkPtr& link) {
  for (;;) {
    const auto found = of_link_.find(link.get());
    if (found != of_link_.end() && !clients_.at(found->second).open.empty()) return;  // after that
    const Fields f = take_frame(link->unparsed);
    if (f.empty()) return;
    if (f[0] == "login") {
      login(link);
      continue;
    }
    if (found == of_link_.end()) return;
    if (f[0] == "quit") return end(found->second);
    Client& c = clients_.at(found->second);
    c.heard = world_.now();
    try {
      for (std::string& statement : sql::statements_in(f[1]))
        c.open.push_back(std::move(statement));
      go_on(c);
    } catch (const sql::Unknown& e) { return world_.broken(e.what()); }
  }
}

void Database::login(const LinkPtr& link) {
  const std::uint64_t id = ++last_session_;
  Client& c = clients_[id];
  c.session.number = id;
  c.link = link;
  c.heard = world_.now();
  of_link_[link.get()] = id;
  network_->reply(link, frame({"welcome", std::to_string(id)}));
  watch_silence(id);
}

// The next statements of the request, until one has to wait.
void Database::go_on(Client& c) {
  while (!c.open.empty() && !busy(c)) {
    // The clock of a statement is read before it waits for a row.
    if (writes_locks(c.open.front()) && world_.now() < rows_locked_until_) return wait_for_row(c);
    carry_out(c, micros());
  }
}

void Database::carry_out(Client& c, Micros began) {
  const sql::Reply reply = sql_.execute(c.session, c.open.front(), began);
  if (writes_locks(c.open.front())) look_at_locks();
  if (reply.waits) return wait_for_name(c, *reply.waits);
  if (reply.kills != 0) kill_query(reply.kills);
  answer(c, reply);
  hand_over_names();
}

void Database::answer(Client& c, const sql::Reply& reply) {
  if (reply.error != 0) c.open.clear();
  else c.open.pop_front();
  c.heard = world_.now();
  Fields f{reply.error != 0 ? "error"
           : reply.has_rows ? "rows"
                            : "done",
           c.open.empty() ? "last" : "more"};
  if (reply.error != 0) f.push_back(std::to_string(reply.error));
  else
    f.insert(f.end(), {std::to_string(reply.affected), std::to_string(reply.insert_id),
                       std::to_string(reply.rows.size())});
  for (const sql::Row& row : reply.rows)
    for (const sql::Cell& v : row) f.push_back(v ? "=" + *v : "");
  if (c.link) network_->reply(c.link, frame(f));
}

// ---- waits -------------------------------------------------------------------------------------

bool Database::would_deadlock(const Client& c, const std::string& name) const {
  std::string wanted = name;
  for (std::size_t i = 0; i <= clients_.size(); ++i) {
    const auto owner = sql_.names.owner(wanted);
    if (!owner) return false;
    if (*owner == c.session.number) return true;
    const auto found = clients_.find(*owner);
    if (found == clients_.end() || found->second.waits_for_name.empty()) return false;
    wanted = found->second.waits_for_name;
  }
  return true;
}

void Database::end_wait_for_name(Client& c, bool obtained) {
  c.waits_for_name.clear();
  std::erase(queue_, c.session.number);
  sql::Reply reply;
  reply.has_rows = true;
  reply.rows = {std::exchange(c.before, {})};
  reply.rows[0].push_back(obtained ? "1" : "0");
  answer(c, reply);
}

void Database::wait_for_name(Client& c, const sql::Reply::Wait& wait) {
  if (would_deadlock(c, wait.name)) {
    sql::Reply reply;
    reply.error = deadlock;
    return answer(c, reply);
  }
  const std::uint64_t id = c.session.number;
  c.waits_for_name = wait.name;
  c.before = wait.before;
  c.wait = ++waits_;
  queue_.push_back(id);
  world_.after(static_cast<Nanos>(wait.seconds * 1e9), mixed(24, id), [this, id, number = waits_] {
    const auto found = clients_.find(id);
    if (found == clients_.end() || found->second.wait != number || !busy(found->second)) return;
    Client& waiter = found->second;
    end_wait_for_name(waiter, false);
    if (!waiter.link) return end(id);
    go_on(waiter);
    if (waiter.link) serve(waiter.link);
  });
}

// To those who wait for names that are free now.
void Database::hand_over_names() {
  for (bool any = true; any;) {
    any = false;
    for (const std::uint64_t id : queue_) {
      Client& c = clients_.at(id);
      if (c.waits_for_name.empty() || sql_.names.owner(c.waits_for_name)) continue;
      sql_.names.take(id, c.waits_for_name);
      end_wait_for_name(c, true);
      if (c.link) {
        const LinkPtr link = c.link;
        go_on(c);
        serve(link);
      } else {
        end(id);
      }
      any = true;
      break;
    }
  }
}

void Database::lock_rows(Nanos span) {
  if (!up_) return;
  if (world_.told()) world_.say("store", "a transaction of somebody else locks the rows");
  rows_locked_until_ = std::max(rows_locked_until_, world_.now() + span);
  world_.at(rows_locked_until_, 26, [this] {
    if (world_.now() >= rows_locked_until_) release_rows();
  });
}

void Database::release_rows() {
  for (const std::uint64_t id : std::vector<std::uint64_t>{queue_}) {
    const auto found = clients_.find(id);
    if (found == clients_.end() || !found->second.waits_for_row) continue;
    Client& c = found->second;
    c.waits_for_row = false;
    std::erase(queue_, id);
    carry_out(c, c.began);
    if (!c.link) {
      end(id);
      continue;
    }
    const LinkPtr link = c.link;
    go_on(c);
    serve(link);
  }
}

void Database::wait_for_row(Client& c) {
  const std::uint64_t id = c.session.number;
  c.waits_for_row = true;
  c.began = micros();
  c.wait = ++waits_;
  queue_.push_back(id);
  world_.after(c.session.row_wait * second, mixed(25, id), [this, id, number = waits_] {
    const auto found = clients_.find(id);
    if (found == clients_.end() || found->second.wait != number || !found->second.waits_for_row)
      return;
    found->second.waits_for_row = false;
    std::erase(queue_, id);
    sql::Reply reply;
    reply.error = row_wait_timeout;
    answer(found->second, reply);
    if (const LinkPtr link = found->second.link) serve(link);
    else end(id);
  });
}

void Database::kill_query(std::uint64_t session) {
  const auto found = clients_.find(session);
  if (found == clients_.end() || !busy(found->second)) return;
  Client& c = found->second;
  c.waits_for_name.clear();
  c.waits_for_row = false;
  std::erase(queue_, session);
  sql::Reply reply;
  reply.error = interrupted;
  answer(c, reply);
}

// ---- sessions ----------------------------------------------------------------------------------

// What waits for a row is carried out all the same; a wait for a name ends at the next look.
void Database::closed(const LinkPtr& link) {
  const auto found = of_link_.find(link.get());
  if (found == of_link_.end()) return;
  const std::uint64_t id = found->second;
  of_link_.erase(found);
  Client& c = clients_.at(id);
  c.link.reset();
  if (!busy(c)) return end(id);
  if (c.waits_for_name.empty()) return;
  world_.after(
      static_cast<Nanos>(world_.uniform ? looks_at_clients / 2
                                        : static_cast<Nanos>(world_.dice.below(looks_at_clients))),
      mixed(27, id), [this, id, wait = c.wait] {
        const auto still = clients_.find(id);
        if (still != clients_.end() && still->second.wait == wait && !still->second.link) end(id);
      });
}

void Database::end(std::uint64_t session) {
  const auto found = clients_.find(session);
  if (found == clients_.end()) return;
  if (found->second.link) of_link_.erase(found->second.link.get());
  clients_.erase(found);
  std::erase(queue_, session);
  sql_.names.release_all(session);
  hand_over_names();
}

void Database::watch_silence(std::uint64_t session) {
  const auto found = clients_.find(session);
  if (found == clients_.end()) return;
  Client& c = found->second;
  const Nanos most = c.session.silence * second;
  if (!busy(c) && c.heard + most <= world_.now()) {
    if (world_.told()) world_.say("store", fmt::format("session {} was silent too long", session));
    const LinkPtr link = c.link;
    end(session);
    if (link) network_->cut(link);
    return;
  }
  const Nanos next = busy(c) ? world_.now() + most : c.heard + most;
  world_.at(std::min(next, world_.now() + 60 * second), mixed(28, session),
            [this, session] { watch_silence(session); });
}

void Database::restart() {
  if (!up_) return;
  if (world_.told()) world_.say("store", forgets_ ? "restarts without its rows" : "restarts");
  rows_locked_until_ = 0;
  queue_.clear();
  of_link_.clear();
  clients_.clear();
  sql_.names.clear();
  last_session_ = 0;  // numbers of sessions are given again
  if (forgets_) {
    sql_.forget_rows();
    holders_.clear();
    ledger_.forgotten();
  }
  goes_down();
  world_.after(down_time, 21, [this] { up_ = true; });
}

// ---- who holds the lock ------------------------------------------------------------------------

// Compares the record with the one before the last statement. A grant that has ended stands there
// until the next change; a renewal that waited for the row meanwhile makes it longer again.
void Database::look_at_locks() {
  std::map<FencingToken, Micros> now_there;
  for (const sql::LockRow& row : sql_.locks) {
    const auto record = decode(row.state);
    if (!record) return world_.broken("a record cannot be read");
    for (const LockState::Holder& h : record->list) {
      now_there[h.token] = h.deadline;
      const Nanos ends = (h.deadline - clock_at_start) * 1000;
      const auto known = holders_.find(h.token);
      if (known != holders_.end()) {
        if (known->second != h.deadline) ledger_.renewed(h.token, ends, true);
      } else {
        if (world_.told())
          world_.say("store",
                     fmt::format("grants token {} to {}", h.token, h.owner.hex().substr(0, 8)));
        ledger_.granted(h.token, h.mode, limit_, ends);
      }
    }
  }
  for (const auto& [token, ends] : holders_) {
    if (ends <= micros() || now_there.contains(token)) continue;
    if (world_.told()) world_.say("store", fmt::format("release of token {}", token));
    ledger_.removed(token, "release");
  }
  holders_ = std::move(now_there);
}

bool Database::empty() const {
  return std::all_of(holders_.begin(), holders_.end(),
                     [&](const auto& h) { return h.second <= micros(); });
}

std::uint64_t Database::hash() const {
  std::uint64_t h = mixed(last_session_, (up_ ? 1U : 0U) + 2 * queue_.size());
  h = mixed(h, mixed(static_cast<std::uint64_t>(frozen_until_),
                     static_cast<std::uint64_t>(rows_locked_until_)));
  h = mixed(h, sql_.hash());
  for (const std::uint64_t waits : queue_) h = mixed(h, waits);
  for (const auto& [token, ends] : holders_)
    h = mixed(h, mixed(token, static_cast<std::uint64_t>(ends)));
  for (const auto& [id, c] : clients_)
    h = mixed(h, mixed(hash_of(c.waits_for_name), id * 4 + (c.link ? 1U : 0U)) + c.open.size());
  return h;
}

}  // namespace dlock::simulation
