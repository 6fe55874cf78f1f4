// SPDX-License-Identifier: Apache-2.0
#include "mysql/lease/lease_backend.hpp"
#include <fmt/format.h>
#include <mysqld_error.h>
#include <algorithm>
#include "core/key_view.hpp"
#include "mysql/doctor.hpp"
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {

LeaseBackend::~LeaseBackend() {
  for (auto& [id, h] : held_) client_.drop(std::move(h.connection));
}

// The server's features decide how waiters wake, and never which owner may hold the lock.
void LeaseBackend::adapt(const Connection& c) {
  const Facts& f = c.facts();
  table_.set_named(!f.galera && !f.proxied && !client_.options().poll,
                   f.galera ? client_.options().clock_skew.count() : 0);
}

LeaseBackend::OwnGrant* LeaseBackend::held(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

bool LeaseBackend::holds_any(const Owner& owner) const noexcept {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const auto& h) { return h.first.second == owner; });
}

void LeaseBackend::let_go(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  if (found == held_.end()) return;
  auto c = std::move(found->second.connection);
  const auto known = std::move(found->second.known);
  held_.erase(found);
  const Deadline until = client_.usual_deadline();
  if (c && !c->broken() && table_.ring(*c, known, until) && table_.free_names(*c, owner, until))
    client_.give_back(std::move(c));
  else client_.drop(std::move(c));
}

// Over the session of the grant if there is one; a new one takes the grant's name, so that its end
// still wakes the next.
template <class T>
Result<T> LeaseBackend::run(OwnGrant* h, const std::function<Result<T>(Connection&)>& step) {
  if (h && h->connection) {
    const Deadline until = client_.usual_deadline();
    auto done = client_.run_on<T>(*h->connection, until, schema::lease, step);
    if (done || !h->connection->broken()) return done;
    const bool silent = h->connection->error_number() == 0;
    client_.drop(std::move(h->connection));
    // A session that has ended says nothing of how fast the server is.
    if (silent && Clock::now() >= until) return done;
  }
  return client_.run<T>(client_.usual_deadline(), schema::lease, [&](Connection& c) {
    adapt(c);
    return step(c);
  });
}

Result<Renewal> LeaseBackend::extend(const Lease& lease, Duration ttl, const std::string& ended) {
  OwnGrant* h = held(lease.key, lease.owner);
  const std::string name = name_of(lease.key);
  TRY(r, run<LeaseTable::Renewed>(h, [&](Connection& c) {
        return table_.renew(c, name, lease.owner, ttl.count(), client_.usual_deadline(), ended);
      }));
  if (!r.token) {
    let_go(lease.key, lease.owner);
    return Lost{"the database does not have it any more: it expired, or was removed"};
  }
  if (h) {
    h->known = {
        .version = r.version, .holders = std::move(r.holders), .wake = std::move(h->known.wake)};
    if (!h->connection && table_.setup().named) {
      if (auto c = client_.take(client_.usual_deadline())) {
        const auto named = (*c)->query(
            "take the name", fmt::format("SELECT GET_LOCK('{}',0)", hold_name(lease.owner)),
            client_.usual_deadline());
        if (named && named->text(0) == "1") (*c)->names.push_back(hold_name(lease.owner));
        if (!std::exchange(h->known.wake, {}).empty())
          (void)table_.forget_bell(**c, name, h->known.version, client_.usual_deadline());
        h->connection = std::move(*c);
      }
    }
    // A session that is silent for longer than this is closed by the server.
    if (h->connection)
      (void)h->connection->wait_timeout(
          std::max<Duration>(ttl + std::chrono::seconds{15}, std::chrono::seconds{120}),
          client_.usual_deadline());
  }
  Lease kept{lease.key, lease.owner};
  kept.mode = r.mine.mode;
  kept.token = *r.token;
  kept.slot = r.mine.slot;
  kept.deadline = lease_end(r.sent, ttl);
  return Kept{std::move(kept), r.revoked};
}

Result<Released> LeaseBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  OwnGrant* h = held(lease.key, lease.owner);
  const std::string name = name_of(lease.key);
  bool unclear = false;
  auto r = run<bool>(h, [&](Connection& c) -> Result<bool> {
    auto done = table_.release(c, name, lease.owner, h ? &h->known : nullptr,
                               client_.usual_deadline(), end ? end->text() : "");
    // If interrupted, it may have been only the wake-up.
    if (!done && (c.broken() || c.error_number() == ER_QUERY_INTERRUPTED)) unclear = true;
    return done;
  });
  if (!r) {
    if (unclear) unanswered_.add(lease);
    return fail(std::move(r.error()));
  }
  let_go(lease.key, lease.owner);
  return unanswered_.answered(lease, *r, unclear);
}

Result<Released> LeaseBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  if (token == FencingToken{0}) return Released::was_not_held;
  const std::string name = name_of(key);
  bool unclear = false;
  TRY(removed, run<std::size_t>(nullptr, [&](Connection& c) {
        auto done = table_.force_release(c, name, token.value_or(0), client_.usual_deadline());
        unclear |= !done && c.broken();
        return done;
      }));
  return removed > 0 || unclear ? Released::yes : Released::was_not_held;
}

Result<Released> LeaseBackend::revoke(const Key& key) {
  const std::string name = name_of(key);
  FencingToken newest = 0;
  TRY(asked, client_.run_if_there<bool>([&](Connection& c) {
    return table_.revoke(c, name, newest, client_.usual_deadline());
  }));
  return asked ? Released::yes : Released::was_not_held;
}

// ---- looking -----------------------------------------------------------------------------------

Result<LeaseTable::Seen> LeaseBackend::look(const Key& key) {
  const std::string name = name_of(key);
  return client_.run_if_there<LeaseTable::Seen>(
      [&](Connection& c) { return table_.look(c, name, client_.usual_deadline()); });
}

Result<Validity> LeaseBackend::check(const Key& key, const GrantId& id) {
  TRY(seen, look(key));
  const auto& all = seen.state.holders;
  const bool valid = std::any_of(all.begin(), all.end(),
                                 [&](const auto& h) { return is(h, id) && h.deadline > seen.now; });
  return valid ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> LeaseBackend::view_of(Connection& c, const std::string& stored,
                                                     Deadline until) {
  const std::string name = client_.options().prefix + stored;
  TRY(seen, table_.look(c, name, until));
  if (!seen.exists) return std::optional<KeyView>{};
  LockState s = seen.state;
  TRY(waiting, table_.waiters(c, name, until));
  for (auto& w : waiting)
    if (!s.holder(w.owner, seen.now)) s.waiters.push_back(std::move(w));
  if (s.holders.empty() && s.waiters.empty() && s.fence == 0) return std::optional<KeyView>{};
  std::string key = seen.holders.key;
  if (const auto told = key_from_store_name(stored)) key = told->text();
  KeyView v = view(s, key.empty() ? stored : key, seen.now);
  s.expire(seen.now);
  for (const auto& h : s.holders) {
    const auto shown = std::find_if(v.holders.begin(), v.holders.end(),
                                    [&](const HolderView& one) { return one.token == h.token; });
    const auto granted = seen.holders.granted.find(h.owner);
    if (granted != seen.holders.granted.end() && seen.now >= granted->second)
      shown->held = Duration{seen.now - granted->second};
    shown->revoked = h.token <= seen.revoked;
  }
  for (const auto& h : s.holders)
    if (h.since > seen.now + 1'000'000)
      v.notes.push_back(
          "the server's clock went back since this grant: it ends that much later, unless it is "
          "released");
  TRY(last, table_.last_run(c, name, until));
  v.last_run = std::move(last);
  if (seen.start) v.noted_start = seen.start->at;
  if (!table_.setup().named) v.notes.push_back("wake=poll: waiters poll");
  return std::optional{std::move(v)};
}

Result<std::optional<KeyView>> LeaseBackend::inspect(const Key& key) {
  auto view = inspect_name(store_name(key));
  if (view && *view) (*view)->key = key.text();
  return view;
}

Result<std::optional<KeyView>> LeaseBackend::inspect_name(const std::string& name) {
  return client_.run_if_there<std::optional<KeyView>>([&](Connection& c) {
    adapt(c);
    return view_of(c, name, client_.usual_deadline());
  });
}

Result<std::vector<std::string>> LeaseBackend::names() {
  const std::string& prefix = client_.options().prefix;
  TRY(found, client_.run_if_there<Answer>(
                 [&](Connection& c) { return table_.keys(c, prefix, client_.usual_deadline()); }));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < found.rows.size(); ++i)
    names.emplace_back(found.text(0, i).substr(prefix.size()));
  return names;
}

// ---- --once-per --------------------------------------------------------------------------------

Result<Starts> LeaseBackend::starts(const Key& key) {
  TRY(seen, look(key));
  if (!seen.exists)
    return fail(Errc::protocol,
                fmt::format("{}: there is no record of a lock that is held", where()));
  return Starts{seen.now, seen.start};
}

Result<Noted> LeaseBackend::note_start(const Lease& lease, const StartChange& change) {
  const std::string name = name_of(lease.key);
  return run<Noted>(held(lease.key, lease.owner), [&](Connection& c) {
    return table_.note_start(c, name, lease.owner, change, client_.usual_deadline());
  });
}

Result<void> LeaseBackend::erase(const Key& key) {
  TRY_VOID(client_.erase({"dlock_wait", "name"}, name_of(key)));
  return client_.erase({"dlock_lock", "name"}, name_of(key));
}

Result<std::vector<Finding>> LeaseBackend::doctor() { return examine(client_, traits_); }

}  // namespace dlock::mysql
