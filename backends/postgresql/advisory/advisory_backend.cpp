// SPDX-License-Identifier: Apache-2.0
#include "postgresql/advisory/advisory_backend.hpp"
#include <fmt/format.h>
#include <limits>
#include "postgresql_schema/schema.hpp"

namespace dlock::postgresql {
namespace {

template <class Unit>
std::int64_t in(Duration d) noexcept {
  return std::chrono::ceil<Unit>(d).count();
}

}  // namespace

// A ttl above the greatest value of the setting switches the timeout off.
Call AdvisoryBackend::set_timeout(Duration ttl) const {
  constexpr std::int64_t longest_keepalive = 32767;  // of Linux
  const auto ms = in<std::chrono::milliseconds>(ttl);
  const auto s = std::min(in<std::chrono::seconds>(ttl), longest_keepalive);
  return {sql_.set_timeout,
          {std::to_string(ms > std::numeric_limits<int>::max() ? 0 : ms), std::to_string(s)}};
}

AdvisoryBackend::AdvisoryBackend(const Traits& traits, Options options)
    : SqlHeldBackend(traits, std::move(options), schema::advisory),
      sql_(client_.options().key_kind) {}

std::string AdvisoryBackend::record_of(std::string_view key) const {
  return fmt::format("{}:{}{}", client_.options().key_kind, client_.options().prefix, key);
}

Result<AdvisoryBackend::Lock> AdvisoryBackend::lock_of(const Key& key) const {
  TRY(value, lock_value(client_.options().key_kind, client_.options().prefix + key.text()));
  return Lock{std::move(value), record_of(key.text())};
}

// ---- waiting -----------------------------------------------------------------------------------

Result<std::unique_ptr<Waiter>> AdvisoryBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits_, r));
  TRY_VOID(lock_of(r.key));
  return waiter(r);
}

Result<void> AdvisoryBackend::prepare(Connection& c, const Request&, Deadline) {
  if (!c.facts().proxied) return {};
  return fail(cannot(
      "behind a pooler a lock ends up with the next user of the session; connect to the server "
      "itself, or use recipe lease"));
}

// After a wait that was successful, the session has the lock already, and takes it again.
Result<std::optional<FencingToken>> AdvisoryBackend::take(Connection& c, const Request& r,
                                                          const SqlRows*, Deadline until) {
  TRY(lock, lock_of(r.key));
  const Call calls[] = {set_timeout(r.ttl),
                        {sql_.take,
                         {lock.value, lock.record, r.owner.hex(), std::to_string(r.ttl.count()),
                          r.identity.encode()}}};
  TRY(taken, client_.run_on<SqlAnswers>(c, until, true, [&](Connection& s) {
    return s.exchange("acquire", calls, until);
  }));
  return taken.back().number<FencingToken>(0);
}

Result<Duration> AdvisoryBackend::send_wait(Connection& c, const Request& r) {
  // A statement that waits makes the server keep the dead versions of all rows. So after this time
  // dlock sends the statement again, and is then the last in the server's queue.
  constexpr Duration longest = std::chrono::seconds{5};
  TRY(lock, lock_of(r.key));
  const SqlStatement sleep = sql_.wait(lock.value, longest);
  const Call wait[] = {{sleep}};
  TRY_VOID(c.send("wait", wait, later(Clock::now(), client_.options().op_timeout)));
  return longest;
}

void AdvisoryBackend::give_up(std::unique_ptr<Connection> c, const Request&) {
  // Another session ends the wait. Then this session is closed, which also ends what it was granted
  // meanwhile.
  if (const int pid = client_.end_wait(c.get())) {
    const Deadline until = client_.usual_deadline();
    (void)client_.ask_to_end(pid, until);
    client_.drop_waiting(std::move(c), until);
  }
  client_.give_back(std::move(c));
}

// ---- a lock that is held -----------------------------------------------------------------------

Result<bool> AdvisoryBackend::heartbeat(Connection& c, const Lease& lease, Duration ttl,
                                        Deadline until) {
  TRY(lock, lock_of(lease.key));
  const Call calls[] = {set_timeout(ttl), {sql_.has_lock, {lock.value}}};
  TRY_VOID(c.send("renew", calls, until));
  TRY(answers, c.receive({until}));
  if (!answers) return fail(no_answer("renew", c.where()));
  return answers->back().text(0) == "t";
}

Result<bool> AdvisoryBackend::release_over(Connection& c, const Lease& lease, Deadline until) {
  TRY(lock, lock_of(lease.key));
  c.holds = false;
  TRY(freed, c.query("release", {sql_.free, {lock.value}}, until));
  return freed.text(0) == "t";
}

Result<Released> AdvisoryBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  TRY(lock, lock_of(key));
  const Deadline until = client_.usual_deadline();
  bool ended = false;
  const auto was = [](bool held) { return held ? Released::yes : Released::was_not_held; };
  return client_.run<Released>(until, false, [&](Connection& c) -> Result<Released> {
    TRY(found, read_record(c, lock, until));
    const bool meant = !token || (found.ours && found.fence == *token);
    if (ended || found.pids.empty() || !meant) return was(ended);
    ended = true;  // even if the reply is lost: a holder found after this is another owner
    const auto ms = std::to_string(in<std::chrono::milliseconds>(client_.options().op_timeout / 2));
    TRY_VOID(c.query("force a release", {sql_.end, {lock.value, found.pids, ms}}, until));
    return was(ended);
  });
}

// ---- reading ------------------------------------------------------------------------------------

Result<SqlRows> AdvisoryBackend::query(std::string_view what, const Call& call) {
  return client_.run_if_there<SqlRows>(
      [&](Connection& c) { return c.query(what, call, client_.usual_deadline()); });
}

Result<AdvisoryBackend::Record> AdvisoryBackend::read_record(Connection& c, const Lock& lock,
                                                             Deadline until) {
  auto r = c.query("look", {sql_.read, {lock.value, lock.record}}, until);
  if (!r && c.remedy() == Remedy::create) r = c.query("look", {sql_.there, {lock.value}}, until);
  if (!r) return fail(std::move(r.error()));
  Record found;
  found.now = r->number<Micros>(0).value_or(0);
  found.pids = r->text(1);
  found.held = !found.pids.empty();
  found.exists = r->has(2);
  found.fence = r->number<FencingToken>(2).value_or(0);
  found.owner = r->text(3);
  found.granted = r->number<Micros>(4).value_or(0);
  found.who = Identity::decode(r->text(5));
  found.ours = r->text(6) == "t";
  found.left = r->number<Micros>(7).value_or(0);
  return found;
}

Result<LockRecord> AdvisoryBackend::read_record(Connection& c, const Key& key, Deadline until) {
  TRY(lock, lock_of(key));
  TRY(found, read_record(c, lock, until));
  return LockRecord{std::move(found)};
}

Result<std::vector<std::string>> AdvisoryBackend::names() {
  const SqlStatement list{"", "SELECT name FROM dlock_advisory WHERE starts_with(name,$1)"};
  const std::string before = record_of("");
  TRY(found, query("list", {list, {before}}));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < found.rows.size(); ++i)
    names.emplace_back(found.text(0, i).substr(before.size()));
  return names;
}

Result<void> AdvisoryBackend::erase(const Key& key) {
  const SqlStatement remove{"", "DELETE FROM dlock_advisory WHERE name=$1"};
  TRY_VOID(query("remove", {remove, {record_of(key.text())}}));
  return {};
}

}  // namespace dlock::postgresql
