// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/held_backend.hpp"
#include <fmt/format.h>
#include <mysqld_error.h>
#include <algorithm>

namespace dlock::mysql {

HeldBackend::~HeldBackend() {
  for (auto& [id, h] : held_) client_.drop(std::move(h.connection));
}

HeldBackend::HeldSession* HeldBackend::mine(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

// The alarm of an ended session is not used any more.
void HeldBackend::lose(const Key& key, const Owner& owner) {
  HeldSession* h = mine(key, owner);
  if (!h || !h->connection) return;
  h->alarm = h->connection->silence();
  client_.drop(std::move(h->connection));
}

Result<Renewal> HeldBackend::renew(const Lease& lease, Duration ttl) {
  const std::string name = name_of(lease.key);
  HeldSession* h = mine(lease.key, lease.owner);
  if (!h) {
    TRY(r, look(name));
    if (!r.ours || r.owner != lease.owner.hex())
      return Renewal{Lost{"there is no lock with this handle"}};
    return fail(refuse("only the process that has the connection can renew it"));
  }
  const auto over = [&](std::string_view why) {
    lose(lease.key, lease.owner);
    return Renewal{Lost{std::string{why}}};
  };
  if (!h->connection) return over("its session is over");
  Connection& c = *h->connection;
  const Deadline until = later(Clock::now(), client_.options().op_timeout);
  // A heartbeat without an answer in time may get one later; the session is the same, so it counts
  // as soon as it comes.
  if (c.under_way()) {
    const auto late = c.receive({until});
    if (late && !*late) return fail(no_answer("renew", c.at().text()));
    if (!late) return over(late.error().message);
  }
  const Deadline sent = Clock::now();
  const auto set = c.wait_timeout(ttl, until);
  const auto kept = set ? beat(c, name, lease.owner, ttl, until) : Result<bool>(fail(set.error()));
  if (!kept) {
    // The session itself failed: the server ends what belongs to it. Other errors change nothing.
    if (c.broken()) return over(kept.error().message);
    return fail(kept.error());
  }
  if (!*kept)
    return over("the session does not have it any more, or a release was forced (release --force)");
  Lease out{lease.key, lease.owner};
  out.token = h->token;
  out.attached = true;
  out.deadline = lease_end(sent, ttl);
  return Renewal{Kept{std::move(out)}};
}

Result<Released> HeldBackend::release(const Lease& lease, std::optional<RunEnd>) {
  const std::string name = name_of(lease.key);
  HeldSession* h = mine(lease.key, lease.owner);
  if (!h) {
    TRY(r, look(name));
    if (!r.ours || r.owner != lease.owner.hex()) return Released::was_not_held;
    return fail(refuse(
        fmt::format("only the process that has the connection can release it ({})", r.who.text())));
  }
  if (!h->connection) {
    held_.erase({lease.key.text(), lease.owner});
    return Released::was_not_held;
  }
  const Deadline until = later(Clock::now(), client_.options().op_timeout);
  if (h->connection->under_way()) (void)h->connection->receive({until});  // of a heartbeat
  const auto done = give_up(*h->connection, name, lease.owner, until);
  const bool usable = done && !h->connection->broken();
  if (!done && !h->connection->broken()) return fail(done.error());
  auto connection = std::move(h->connection);
  held_.erase({lease.key.text(), lease.owner});
  connection->patient = false;
  if (usable) client_.give_back(std::move(connection));
  else client_.drop(std::move(connection));
  // Without a session there is no lock: it ended before, or it ends now.
  return done && *done ? Released::yes : Released::was_not_held;
}

Result<Released> HeldBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string name = name_of(key);
  const Deadline until = client_.usual_deadline();
  return client_.run<Released>(until, "", [&](Connection& c) -> Result<Released> {
    TRY(r, look(c, name, until));
    if (!r.held || (token && (!r.ours || r.fence != *token))) return Released::was_not_held;
    std::uint64_t session = r.ours ? r.conn : 0;
    if (!r.ours) {
      TRY(stranger, session_of(c, name, until));
      session = stranger;
      if (session == 0)
        return fail(refuse("it is held by another program; only that can release it"));
    }
    // Its next heartbeat would notice by the record, too; it notices the end of its session at
    // once.
    if (r.ours) {
      TRY_VOID(c.query("force a release",
                       fmt::format("UPDATE {} SET owner='' WHERE name={} AND fence={}", table_,
                                   hex(name), r.fence),
                       until));
    }
    auto killed = c.query("force a release", fmt::format("KILL {}", session), until);
    if (!killed && c.error_number() != ER_NO_SUCH_THREAD) return fail(std::move(killed.error()));
    // until the server has cleaned up
    for (;;) {
      TRY(after, look(c, name, until));
      if (!after.held || Clock::now() >= until) return Released::yes;
      const auto still = session_of(c, name, until);
      if (still && *still != 0 && *still != session) return Released::yes;
      nap(Duration{1000}, -1);
    }
  });
}

}  // namespace dlock::mysql
