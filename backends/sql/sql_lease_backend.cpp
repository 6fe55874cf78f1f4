// SPDX-License-Identifier: Apache-2.0
#include "sql/sql_lease_backend.hpp"
#include <algorithm>

namespace dlock {

SqlLeaseBackend::OwnGrant* SqlLeaseBackend::grant_of(const Key& key, const Owner& owner) {
  const auto found = grants_.find({key.text(), owner});
  return found == grants_.end() ? nullptr : &found->second;
}

bool SqlLeaseBackend::holds_any(const Owner& owner) const noexcept {
  return std::ranges::any_of(grants_, [&](const auto& g) { return g.first.second == owner; });
}

void SqlLeaseBackend::forget_grant(const Key& key, const Owner& owner, bool woken) {
  const auto found = grants_.find({key.text(), owner});
  if (found == grants_.end()) return;
  auto s = std::move(found->second.session);
  const auto written = std::move(found->second.written);
  grants_.erase(found);
  if (s && !s->broken() &&
      !table_->release_locks(*s, name_of(key), owner, written.wake, woken,
                             client_->usual_deadline()))
    s->why_untrusted();
  client_->give_back(std::move(s));
}

template <class T, class Step>
Result<T> SqlLeaseBackend::run(OwnGrant* g, const Step& step) {
  if (g && g->session) {
    const Deadline until = client_->usual_deadline();
    auto done = client_->run_on<T>(*g->session, until, true, step);
    if (done || !g->session->broken()) return done;
    const bool silent = !g->session->has_server_error();
    client_->drop(std::move(g->session));
    // If no reply came in time, do not try again. But if the server has ended the session, try
    // again: in this case the delay does not show that the server is slow.
    if (silent && Clock::now() >= until) return done;
  }
  return client_->run<T>(client_->usual_deadline(), true, [&](SqlSession& s) {
    table_->adapt(s, client_->options());
    return step(s);
  });
}

template <class T, class Step>
Result<T> SqlLeaseBackend::run_if_there(const Step& step) {
  return client_->run_if_there<T>([&](SqlSession& s) {
    table_->adapt(s, client_->options());
    return step(s);
  });
}

Result<SqlLeaseRow> SqlLeaseBackend::read_row(const Key& key) {
  return run_if_there<SqlLeaseRow>(
      [&](SqlSession& s) { return table_->read_row(s, name_of(key), client_->usual_deadline()); });
}

Result<std::unique_ptr<Waiter>> SqlLeaseBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits_, r));
  return sql_lease_waiter(*this, r);
}

// If the grant has lost its session, a new session takes the locks of the grant, so that the end of
// this session still wakes the next waiter.
Result<Renewal> SqlLeaseBackend::extend(const Lease& lease, Duration ttl,
                                        const std::string& ended) {
  OwnGrant* g = grant_of(lease.key, lease.owner);
  const std::string name = name_of(lease.key);
  TRY(r, run<SqlLeaseRenewal>(g, [&](SqlSession& s) {
        return table_->renew(s, name, lease.owner, ttl.count(), client_->usual_deadline(), ended,
                             lease.ended);
      }));
  if (!r.token) {
    forget_grant(lease.key, lease.owner);
    return Lost{"the database does not have it any more: it expired, or was removed"};
  }
  if (g) {
    r.written.wake = std::move(g->written.wake);
    g->written = std::move(r.written);
    if (!g->session && table_->setup().wakes)
      if (auto s = client_->session(client_->usual_deadline())) {
        table_->claim_locks(**s, name, r.mine, g->written, client_->usual_deadline());
        g->session = std::move(*s);
      }
    if (g->session) (void)table_->keep_session(*g->session, ttl, client_->usual_deadline());
  }
  Lease kept{lease.key, lease.owner};
  kept.mode = r.mine.mode;
  kept.token = *r.token;
  kept.slot = r.mine.slot;
  kept.deadline = lease_end(r.sent, ttl);
  return Kept{std::move(kept), r.revoked};
}

Result<Released> SqlLeaseBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  OwnGrant* g = grant_of(lease.key, lease.owner);
  const std::string name = name_of(lease.key);
  bool unclear = false;
  auto r = run<bool>(g, [&](SqlSession& s) {
    auto done = table_->release(s, name, lease.owner, g ? &g->written : nullptr,
                                client_->usual_deadline(), end ? end->text() : "");
    unclear |= !done && table_->is_unclear(s);
    return done;
  });
  if (!r) {
    if (unclear) unanswered_.add(lease);
    return fail(std::move(r.error()));
  }
  forget_grant(lease.key, lease.owner, true);
  return unanswered_.answered(lease, *r, unclear);
}

Result<Released> SqlLeaseBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  if (token == FencingToken{0}) return Released::was_not_held;
  const std::string name = name_of(key);
  bool unclear = false;
  TRY(removed, run<std::size_t>(nullptr, [&](SqlSession& s) {
        auto done = table_->force_release(s, name, token.value_or(0), client_->usual_deadline());
        unclear |= !done && s.broken();
        return done;
      }));
  return removed > 0 || unclear ? Released::yes : Released::was_not_held;
}

Result<Released> SqlLeaseBackend::revoke(const Key& key) {
  FencingToken newest = 0;
  TRY(revoked, run_if_there<bool>([&](SqlSession& s) {
        return table_->revoke(s, name_of(key), newest, client_->usual_deadline());
      }));
  return revoked ? Released::yes : Released::was_not_held;
}

Result<Validity> SqlLeaseBackend::check(const Key& key, const GrantId& id) {
  TRY(row, read_row(key));
  const auto& all = row.state.holders;
  const bool valid =
      std::ranges::any_of(all, [&](const auto& h) { return is(h, id) && h.deadline > row.now; });
  return valid ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> SqlLeaseBackend::inspect(const Key& key) {
  auto view = inspect_name(store_name(key));
  if (view && *view) (*view)->key = key.text();
  return view;
}

Result<std::optional<KeyView>> SqlLeaseBackend::inspect_name(const std::string& name) {
  return run_if_there<std::optional<KeyView>>([&](SqlSession& s) { return view_of(s, name); });
}

Result<std::vector<std::string>> SqlLeaseBackend::names() {
  return run_if_there<std::vector<std::string>>([&](SqlSession& s) {
    return table_->keys(s, client_->options().prefix, client_->usual_deadline());
  });
}

Result<RunStarts> SqlLeaseBackend::starts(const Key& key) {
  TRY(row, read_row(key));
  if (!row.exists)
    return fail(Errc::protocol, "{}: there is no record of a lock that is held", where());
  return RunStarts{row.now, row.start};
}

Result<UpdateResult> SqlLeaseBackend::note_start(const Lease& lease, const RunStartUpdate& change) {
  return run<UpdateResult>(grant_of(lease.key, lease.owner), [&](SqlSession& s) {
    return table_->note_start(s, name_of(lease.key), lease.owner, change,
                              client_->usual_deadline());
  });
}

Result<void> SqlLeaseBackend::erase(const Key& key) {
  const auto erased = run_if_there<bool>([&](SqlSession& s) -> Result<bool> {
    TRY_VOID(table_->erase(s, name_of(key), client_->usual_deadline()));
    return true;
  });
  return erased ? Result<void>{} : fail(erased.error());
}

Result<std::optional<KeyView>> SqlLeaseBackend::view_of(SqlSession& session,
                                                        const std::string& stored) {
  const std::string name = client_->options().prefix + stored;
  TRY(row, table_->read_row(session, name, client_->usual_deadline()));
  if (!row.exists) return std::nullopt;
  LockState s = row.state;
  TRY(waiting, table_->waiters(session, name, client_->usual_deadline()));
  for (auto& w : waiting)
    if (!s.holder(w.owner, row.now)) s.waiters.push_back(std::move(w));
  if (s.holders.empty() && s.waiters.empty() && s.fence == 0) return std::nullopt;
  std::string key = row.holders.key;
  if (const auto named = key_from_store_name(stored)) key = named->text();
  KeyView v = view(s, key.empty() ? stored : key, row.now);
  s.expire(row.now);
  for (const auto& h : s.holders) {
    const auto shown = std::ranges::find(v.holders, h.token, &HolderView::token);
    *shown = row.view_of(h);
    shown->revoked = h.token <= row.revoked;
    if (h.since > row.now + 1'000'000)
      v.notes.push_back(
          "the server's clock went back since this grant: it ends that much later, unless it is "
          "released");
  }
  v.last_run = row.last_run;
  if (row.start) v.noted_start = row.start->at;
  if (!table_->setup().wakes) v.notes.push_back("wake=poll: waiters poll");
  return v;
}

}  // namespace dlock
