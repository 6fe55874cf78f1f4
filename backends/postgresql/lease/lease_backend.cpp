// SPDX-License-Identifier: Apache-2.0
#include "postgresql/lease/lease_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "postgresql/doctor.hpp"
#include "postgresql/lease/lease_waiter.hpp"

namespace dlock::postgresql {

LeaseBackend::OwnGrant* LeaseBackend::held(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

// `rung`: the release did that; a bell that it left had nobody to hear it.
void LeaseBackend::let_go(const Key& key, const Owner& owner, bool rung) {
  const auto found = held_.find({key.text(), owner});
  if (found == held_.end()) return;
  auto c = std::move(found->second.connection);
  held_.erase(found);
  const bool done = rung && c && c->locks.empty();
  if (c && !c->broken() && !done && !table_.ring(*c, name_of(key), client_.usual_deadline()))
    c->distrust();
  client_.give_back(std::move(c));
}

// Over the session of the grant if there is one.
template <class T>
Result<T> LeaseBackend::run(OwnGrant* h, const std::function<Result<T>(Connection&)>& step) {
  if (h && h->connection) {
    const Deadline until = client_.usual_deadline();
    auto done = step(*h->connection);
    if (done || !h->connection->broken()) return done;
    const bool silent = h->connection->sqlstate().empty();
    client_.drop(std::move(h->connection));
    // A session that has ended says nothing of how fast the server is.
    if (silent && Clock::now() >= until) return done;
  }
  return client_.run<T>(client_.usual_deadline(), true, [&](Connection& c) {
    adapt(c);
    return step(c);
  });
}

template <class T>
Result<T> LeaseBackend::ask(const std::function<Result<T>(Connection&)>& step) {
  return client_.run<T>(client_.usual_deadline(), false, [&](Connection& c) -> Result<T> {
    adapt(c);
    auto done = step(c);
    if (!done && c.remedy() == Remedy::create) return T{};  // no table, no lock
    return done;
  });
}

Result<std::unique_ptr<Waiter>> LeaseBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits(), r));
  return std::make_unique<LeaseWaiter>(*this, r);
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
    h->known = std::move(r.known);
    if (!h->connection && table_.setup().wakes)
      if (auto c = client_.take(client_.usual_deadline())) {
        (void)table_.adopt(**c, r.mine, client_.usual_deadline());
        h->connection = std::move(*c);
      }
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
    if (!done && c.broken()) unclear = true;
    return done;
  });
  if (!r) {
    if (unclear) unanswered_.add(lease);
    return fail(std::move(r.error()));
  }
  let_go(lease.key, lease.owner, true);
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
  TRY(asked, ask<bool>([&](Connection& c) {
        return table_.revoke(c, name, newest, client_.usual_deadline());
      }));
  return asked ? Released::yes : Released::was_not_held;
}

// ---- looking -----------------------------------------------------------------------------------

Result<LeaseTable::Seen> LeaseBackend::look(const Key& key) {
  const std::string name = name_of(key);
  return ask<LeaseTable::Seen>(
      [&](Connection& c) { return table_.look(c, name, client_.usual_deadline()); });
}

Result<Validity> LeaseBackend::check(const Key& key, const GrantId& id) {
  TRY(seen, look(key));
  const auto& all = seen.state.holders;
  const bool valid = std::any_of(all.begin(), all.end(),
                                 [&](const auto& h) { return is(h, id) && h.deadline > seen.now; });
  return valid ? Validity::valid : Validity::stale;
}

Result<KeyView> LeaseBackend::view_of(Connection& c, const std::string& stored,
                                      const LeaseTable::Seen& seen) {
  const std::string name = client_.options().prefix + stored;
  LockState s = seen.state;
  TRY(waiting, table_.waiters(c, name, client_.usual_deadline()));
  for (auto& w : waiting)
    if (!s.holder(w.owner, seen.now)) s.waiters.push_back(std::move(w));
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
    if (h.since > seen.now + 1'000'000)
      v.notes.push_back(
          "the server's clock went back since this grant: it ends that much later, unless it is "
          "released");
  }
  v.last_run = seen.last_run;
  if (seen.start) v.noted_start = seen.start->at;
  if (!table_.setup().wakes) v.notes.push_back("wake=poll: waiters poll");
  return v;
}

Result<std::optional<KeyView>> LeaseBackend::inspect(const Key& key) {
  auto view = inspect_name(store_name(key));
  if (view && *view) (*view)->key = key.text();
  return view;
}

Result<std::optional<KeyView>> LeaseBackend::inspect_name(const std::string& name) {
  using View = std::optional<KeyView>;
  return ask<View>([&](Connection& c) -> Result<View> {
    const std::string stored = client_.options().prefix + name;
    TRY(seen, table_.look(c, stored, client_.usual_deadline()));
    if (!seen.exists) return View{};
    TRY(v, view_of(c, name, seen));
    if (v.holders.empty() && v.waiters.empty() && v.fence == 0) return View{};
    return View{std::move(v)};
  });
}

Result<std::vector<std::string>> LeaseBackend::names() {
  using Names = std::vector<std::string>;
  const std::string& prefix = client_.options().prefix;
  return ask<Names>([&](Connection& c) -> Result<Names> {
    TRY(found, table_.keys(c, prefix, client_.usual_deadline()));
    Names names;
    for (std::size_t i = 0; i < found.rows.size(); ++i)
      names.emplace_back(found.text(0, i).substr(prefix.size()));
    return names;
  });
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
  OwnGrant* h = held(lease.key, lease.owner);
  const std::string name = name_of(lease.key);
  return run<Noted>(h, [&](Connection& c) {
    return table_.note_start(c, name, lease.owner, change, client_.usual_deadline());
  });
}

Result<void> LeaseBackend::erase(const Key& key) {
  const std::string name = name_of(key);
  TRY(done, ask<bool>([&](Connection& c) -> Result<bool> {
        TRY_VOID(table_.erase(c, name, client_.usual_deadline()));
        return true;
      }));
  (void)done;
  return {};
}

Result<std::vector<Finding>> LeaseBackend::doctor() { return examine(client_, traits_); }

}  // namespace dlock::postgresql
