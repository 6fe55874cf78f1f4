// SPDX-License-Identifier: Apache-2.0
// The statements that change data.
#include "postgresql/lease/lease_table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock::postgresql {
namespace {

// Returns the number of a new wake lock, which is below the numbers of all tickets. Other programs
// use small numbers and hashes, which hardly ever equal this number.
std::uint64_t new_wake_lock() { return (1ULL << 61U) | unique_number(); }

const SqlStatement lock_statement{"dlock_bell", "SELECT pg_try_advisory_lock($1::bigint)"};
const SqlStatement unlock_statement{"dlock_unlock", "SELECT pg_advisory_unlock($1::bigint)"};
// Releases the wake lock if the owner does not hold the key any more and there is a waiter.
const SqlStatement release_wake_lock{
    "dlock_ring",
    "SELECT pg_advisory_unlock($2::bigint) FROM dlock_wait w WHERE w.name=$1 AND NOT EXISTS(SELECT "
    "FROM dlock_lock l WHERE l.name=w.name AND strpos(l.state,$3)>0) LIMIT 1"};
const SqlStatement release_ticket_of_holder{
    "dlock_end_hold",
    "SELECT pg_advisory_unlock($2::bigint) WHERE NOT EXISTS(SELECT FROM dlock_lock l WHERE "
    "l.name=$1 AND strpos(l.state,$3)>0)"};
const SqlStatement release_ticket_of_waiter{
    "dlock_end_wait",
    fmt::format("SELECT pg_advisory_unlock($2::bigint) WHERE NOT EXISTS(SELECT FROM dlock_wait w "
                "WHERE w.name=$1 AND w.ticket={})",
                turned("w", "$2::bigint"))};
// `answers`: the replies to statements that release the tickets, and then the wake lock. A reply
// with a row means that this lock was released.
void forget_released(Connection& c, std::span<const SqlRows> answers) {
  std::size_t at = 0;
  std::erase_if(c.locks, [&](std::uint64_t) { return !answers[at++].rows.empty(); });
  if (at < answers.size() && !answers[at].rows.empty()) c.wake_lock = 0;
}

}  // namespace

void LeaseTable::add_wake_lock(Connection& c, std::vector<Call>& calls) const {
  if (!setup_.wakes || c.wake_lock != 0) return;
  c.wake_lock = new_wake_lock();
  calls.push_back({lock_statement, {std::to_string(c.wake_lock)}});
}

Call LeaseTable::change(const std::string& name, const Change& change) const {
  const SqlWrittenRow& next = change.next;
  std::string head, tail;
  if (const auto& run = change.run) {
    head = fmt::format("{:020}", run->token);
    tail = fmt::format(" {} {} {}", run->ended, run->granted, run->who);
  }
  return {write_,
          {name, std::to_string(change.version), std::to_string(next.fence), encode(next.holders),
           head, tail, std::to_string(change.before), std::to_string(next.version)}};
}

// A change that ends a grant also releases the grant's locks: the tickets, and the wake lock if
// there is a waiter.
Result<bool> LeaseTable::write(SqlSession& s, const std::string& name, const Change& change,
                               Deadline until) {
  Connection& c = as_connection(s);
  std::vector<Call> calls{this->change(name, change)};
  if (change.ended) {
    const std::string me = change.ended->hex();
    for (const std::uint64_t ticket : c.locks)
      calls.push_back({release_ticket_of_holder, {name, std::to_string(ticket), me}});
    if (c.wake_lock != 0)
      calls.push_back({release_wake_lock, {name, std::to_string(c.wake_lock), me}});
  }
  TRY(answers, c.exchange("write the lock", calls, until));
  if (calls.size() > 1) forget_released(c, std::span{answers}.subspan(1));
  return !answers[0].rows.empty();
}

// If a waiter gets an exclusive grant, the grant keeps the waiter's ticket. All other grants have
// the wake lock of the session.
Result<bool> LeaseTable::grant(SqlSession& s, const Attempt& a, const Row& row, SqlWrittenRow& next,
                               std::uint64_t passed, Deadline until) {
  Connection& c = as_connection(s);
  const bool keeps_ticket = row.ticket && a.request.mode == Mode::exclusive;
  std::vector<Call> calls;
  if (!keeps_ticket) {
    add_wake_lock(c, calls);
    next.holders.list.back().ticket = setup_.wakes ? c.wake_lock : 0;
  }
  const std::size_t at = calls.size();
  const Call written = change(a.name, {row.version, next});
  const bool leaves = row.ticket || passed != 0;
  calls.push_back({leaves ? leave_ : write_, written.values});
  if (leaves)
    for (const std::uint64_t ticket : {row.ticket.value_or(0), passed})
      calls.back().values.push_back(std::to_string(ticket));
  if (setup_.wakes && !keeps_ticket)
    for (const std::uint64_t ticket : c.locks)
      calls.push_back({release_ticket_of_waiter, {a.name, std::to_string(ticket)}});
  TRY(answers, c.exchange("write the lock", calls, until));
  if (calls.size() > at + 1) forget_released(c, std::span{answers}.subspan(at + 1));
  return !answers[at].rows.empty();
}

Result<std::optional<SqlLeaseDecision>> LeaseTable::take_free(SqlSession& s, const Attempt& a,
                                                              Deadline until) {
  // thirty years: a longer ttl would overflow when the server adds it to the time
  constexpr Micros longest_ttl = 1'000'000'000'000'000;
  if (a.request.ttl > longest_ttl) return std::nullopt;
  // A statement that names no version could be carried out long after we gave it up, and its grant
  // would have no owner. So the statement has a latest time, on the server's clock. That time is
  // early enough that a wait for the row also ends before `until`. The server's clock is also the
  // token of the grant.
  Connection& c = as_connection(s);
  const Deadline sent = Clock::now();
  const Micros bound =
      c.server_time(until - std::min<Clock::duration>(c.row_wait(), (until - sent) / 2));
  std::vector<Call> calls;
  add_wake_lock(c, calls);
  LockState decided;
  const auto answer = decided.acquire(a.request, 0);
  LockState::Holder& mine = decided.holders.front();
  mine.ticket = setup_.wakes ? c.wake_lock : 0;
  const std::uint64_t version = unique_number();
  calls.push_back({take_,
                   {a.name,
                    fmt::format("{}{}\nH {} {} {} ", holders_magic, percent_encode(a.key),
                                mine.owner.hex(), static_cast<char>(mine.mode), mine.ticket),
                    fmt::format(" {} ", mine.slot), std::to_string(a.request.ttl),
                    fmt::format(" {} {}\n", mine.delay, mine.meta.empty() ? "-" : mine.meta),
                    encode({a.key, {}, {}}), std::to_string(bound), std::to_string(version)}});
  TRY(answers, c.exchange("take the lock", calls, until));
  const SqlRows& r = answers.back();
  if (r.rows.empty()) return std::nullopt;
  const auto token = r.number<FencingToken>(0);
  if (!token) {
    c.why_untrusted();
    return fail(malformed_reply("take the lock", c.where()));
  }
  const auto now = static_cast<Micros>(*token);
  mine.token = *token;
  mine.since = now;
  mine.deadline = now + a.request.ttl;
  Decision out{.answer = answer, .held = false, .sent = sent, .now = now, .version = version};
  std::get<LockState::Granted>(out.answer).token = *token;
  out.written = {version, *token, {a.key, decided.holders, {{a.request.owner, now}}}, ""};
  return out;
}

Result<void> LeaseTable::release_locks(SqlSession& s, const std::string& name, const Owner&,
                                       const std::string&, bool woken, Deadline until) {
  Connection& c = as_connection(s);
  if (woken && c.locks.empty()) return {};
  std::vector<Call> calls;
  for (const std::uint64_t ticket : c.locks)
    calls.push_back({unlock_statement, {std::to_string(ticket)}});
  if (c.wake_lock != 0)
    calls.push_back({release_wake_lock, {name, std::to_string(c.wake_lock), "no owner"}});
  if (calls.empty()) return {};
  TRY(answers, c.exchange("wake the next", calls, until));
  forget_released(c, answers);
  return {};
}

void LeaseTable::claim_locks(SqlSession& s, const std::string&, const LockState::Holder& h,
                             SqlWrittenRow&, Deadline until) {
  Connection& c = as_connection(s);
  if (!setup_.wakes || h.ticket == 0) return;
  const auto r = c.query("take the ticket", {lock_statement, {std::to_string(h.ticket)}}, until);
  if (r && r->text(0) == "t") c.locks.insert(h.ticket);
}

Result<void> LeaseTable::erase(SqlSession& s, const std::string& name, Deadline until) {
  static const SqlStatement waiters{"", "DELETE FROM dlock_wait WHERE name=$1"};
  static const SqlStatement lock{"", "DELETE FROM dlock_lock WHERE name=$1"};
  const Call calls[] = {{waiters, {name}}, {lock, {name}}};
  TRY_VOID(as_connection(s).exchange("remove", calls, until));
  return {};
}

}  // namespace dlock::postgresql
