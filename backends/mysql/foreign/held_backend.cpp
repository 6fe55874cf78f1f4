// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/held_backend.hpp"
#include <fmt/format.h>
#include <mysqld_error.h>
#include "core/key.hpp"

namespace dlock::mysql {

std::string life_name(const Owner& owner, const std::string& name) {
  return "dl:" + owner.hex() + sha256_hex(name).substr(0, 16);
}

Result<std::unique_ptr<Waiter>> HeldBackend::enqueue(const Request& r) {
  TRY_VOID(check_request(r));
  return waiter(r);
}

Result<void> HeldBackend::prepare(Connection& c, const Request& r, Deadline until) {
  if (c.facts().galera)
    return fail(cannot(
        fmt::format("this server is a node of a Galera cluster, where {} are known to one node "
                    "only; use recipe lease",
                    locks())));
  if (c.facts().proxied)
    return fail(cannot(fmt::format("behind a proxy that shares connections {}", behind_proxy())));
  TRY_VOID(c.wait_timeout(r.ttl, until));
  TRY_VOID(client_.run_on<bool>(c, until, true, [&](Connection& s) {
    return set_up(s, name_of(r.key), until).map([] { return true; });
  }));
  return {};
}

Result<std::optional<FencingToken>> HeldBackend::take(Connection& c, const Request& r,
                                                      const SqlRows* waited, Deadline until) {
  const std::string name = name_of(r.key);
  using Token = std::optional<FencingToken>;
  if (!waited || !was_granted(*waited))
    return client_.run_on<Token>(c, until, true,
                                 [&](Connection& s) { return try_now(s, name, r, until); });
  // Do not create the table: that would end the transaction that has the lock.
  return client_.run_on<Token>(c, until, false,
                               [&](Connection& s) { return record_grant(s, name, r, until); });
}

// After a deadlock or a timeout of the statement, the session holds no lock.
bool HeldBackend::may_wait_again(Connection& c, Request& r) {
  if (c.remedy() != Remedy::later || !undo(c, name_of(r.key), client_.usual_deadline()))
    return false;
  r.owner = Owner::random();
  return true;
}

void HeldBackend::give_up(std::unique_ptr<Connection> c, const Request& r) {
  (void)client_.end_wait(c.get());
  if (!c->under_way() && !c->broken() && undo(*c, name_of(r.key), client_.usual_deadline()))
    return client_.give_back(std::move(c));
  client_.drop(std::move(c));
}

Result<bool> HeldBackend::force_over(Connection& c, const std::string& name, const LockRow& r,
                                     Deadline until) {
  if (!r.stays_because.empty()) return fail(cannot(r.stays_because));
  std::uint64_t session = r.conn;
  if (!r.ours) {
    TRY(stranger, session_of(c, name, until));
    session = stranger;
    if (session == 0) return false;  // no session has the lock any more
  }
  // Clear the record, and then end the session. The cleared record alone would stop the holder only
  // at its next heartbeat, but the holder notices the end of its session at once.
  if (r.ours) {
    TRY_VOID(c.query("force a release", until, "UPDATE {} SET owner='' WHERE name={} AND fence={}",
                     table_, hex(name), r.fence));
  }
  auto killed = c.query("force a release", until, "KILL {}", session);
  if (!killed && c.error_number() != ER_NO_SUCH_THREAD) return fail(std::move(killed.error()));
  // Wait until the server has ended the session and its lock. A waiter may have the lock by then.
  for (;;) {
    TRY(after, read_record(c, name, until));
    if (!after.held || after.fence != r.fence || Clock::now() >= until) return true;
    const auto still = session_of(c, name, until);
    if (still && *still != 0 && *still != session) return true;
    nap(Duration{1000}, -1);
  }
}

}  // namespace dlock::mysql
