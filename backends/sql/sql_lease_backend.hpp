// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` of a database as a Backend: the verbs, over any session, and the sessions of our
// grants.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include "common/unanswered_releases.hpp"
#include "core/key.hpp"
#include "sql/sql_lease_waiter.hpp"
#include "store/backend.hpp"
#include "store/key_view.hpp"

namespace dlock {

// `Client`: a SqlClient. `Table`: a SqlLeaseTable.
template <class Client, class Table>
class SqlLeaseBackend final : public Backend {
  using Connection = typename Client::Connection;

 public:
  template <class Options>
  SqlLeaseBackend(const Traits& traits, Options options)
      : client_(std::move(options)), traits_(traits) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_.options().where; }
  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request& r) override {
    TRY_VOID(can_serve(traits(), r));
    return std::make_unique<SqlLeaseWaiter<SqlLeaseBackend>>(*this, r);
  }
  Result<Renewal> renew(const Lease& lease, Duration ttl) override {
    return extend(lease, ttl, "");
  }
  Result<Renewal> detach(const Lease& lease, Duration ttl, std::optional<RunEnd> end) override {
    return extend(lease, ttl, end ? end->text() : "");
  }

  Result<Released> release(const Lease& lease, std::optional<RunEnd> end) override {
    OwnGrant* h = held(lease.key, lease.owner);
    const std::string name = name_of(lease.key);
    bool unclear = false;
    auto r = run<bool>(h, [&](Connection& c) -> Result<bool> {
      auto done = table_.release(c, name, lease.owner, h ? &h->known : nullptr,
                                 client_.usual_deadline(), end ? end->text() : "");
      unclear |= !done && Table::unclear(c);
      return done;
    });
    if (!r) {
      if (unclear) unanswered_.add(lease);
      return fail(std::move(r.error()));
    }
    let_go(lease.key, lease.owner, true);
    return unanswered_.answered(lease, *r, unclear);
  }

  Result<Released> force_release(const Key& key, std::optional<FencingToken> token) override {
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

  Result<Released> revoke(const Key& key) override {
    FencingToken newest = 0;
    TRY(revoked, run_if_there<bool>([&](Connection& c) {
          return table_.revoke(c, name_of(key), newest, client_.usual_deadline());
        }));
    return revoked ? Released::yes : Released::was_not_held;
  }

  Result<Validity> check(const Key& key, const GrantId& id) override {
    TRY(row, read_row(key));
    const auto& all = row.state.holders;
    const bool valid = std::any_of(
        all.begin(), all.end(), [&](const auto& h) { return is(h, id) && h.deadline > row.now; });
    return valid ? Validity::valid : Validity::stale;
  }

  Result<std::optional<KeyView>> inspect(const Key& key) override {
    auto view = inspect_name(store_name(key));
    if (view && *view) (*view)->key = key.text();
    return view;
  }
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override {
    return run_if_there<std::optional<KeyView>>([&](Connection& c) { return view_of(c, name); });
  }
  Result<std::vector<std::string>> names() override {
    return run_if_there<std::vector<std::string>>([&](Connection& c) {
      return table_.keys(c, client_.options().prefix, client_.usual_deadline());
    });
  }

  Result<Starts> starts(const Key& key) override {
    TRY(row, read_row(key));
    if (!row.exists)
      return fail(Errc::protocol,
                  fmt::format("{}: there is no record of a lock that is held", where()));
    return Starts{row.now, row.start};
  }
  Result<Noted> note_start(const Lease& lease, const StartChange& change) override {
    return run<Noted>(held(lease.key, lease.owner), [&](Connection& c) {
      return table_.note_start(c, name_of(lease.key), lease.owner, change,
                               client_.usual_deadline());
    });
  }

  Result<void> erase(const Key& key) override {
    const auto erased = run_if_there<bool>([&](Connection& c) -> Result<bool> {
      TRY_VOID(table_.erase(c, name_of(key), client_.usual_deadline()));
      return true;
    });
    return erased ? Result<void>{} : fail(erased.error());
  }

  Result<std::vector<Finding>> doctor() override { return client_.examine(traits_); }
  Counters counters() const noexcept override { return {client_.exchanges(), wakeups_}; }
  std::uint64_t conflicts() const noexcept { return table_.conflicts(); }

 private:
  friend class SqlLeaseWaiter<SqlLeaseBackend>;
  using Session = Connection;
  using Store = Table;

  // A grant, with the session that has its locks, so that its end wakes the next one.
  struct OwnGrant {
    std::unique_ptr<Connection> connection;
    typename Table::Known known;
  };

  std::string name_of(const Key& key) const { return client_.options().prefix + store_name(key); }

  OwnGrant* held(const Key& key, const Owner& owner) {
    const auto found = held_.find({key.text(), owner});
    return found == held_.end() ? nullptr : &found->second;
  }
  bool holds_any(const Owner& owner) const noexcept {
    return std::any_of(held_.begin(), held_.end(),
                       [&](const auto& h) { return h.first.second == owner; });
  }
  // `rung`: the release did that; a bell that it left had nobody to hear it.
  void let_go(const Key& key, const Owner& owner, bool rung = false) {
    const auto found = held_.find({key.text(), owner});
    if (found == held_.end()) return;
    auto c = std::move(found->second.connection);
    const auto known = std::move(found->second.known);
    held_.erase(found);
    if (c && !c->broken() &&
        !table_.end_locks(*c, name_of(key), owner, known.wake, rung, client_.usual_deadline()))
      c->distrust();
    client_.give_back(std::move(c));
  }

  // Over the session of the grant if there is one.
  template <class T>
  Result<T> run(OwnGrant* h, const std::function<Result<T>(Connection&)>& step) {
    if (h && h->connection) {
      const Deadline until = client_.usual_deadline();
      auto done = client_.template run_on<T>(*h->connection, until, true, step);
      if (done || !h->connection->broken()) return done;
      const bool silent = !h->connection->has_server_error();
      client_.drop(std::move(h->connection));
      // A session that has ended says nothing of how fast the server is.
      if (silent && Clock::now() >= until) return done;
    }
    return client_.template run<T>(client_.usual_deadline(), true, [&](Connection& c) {
      table_.adapt(c, client_.options());
      return step(c);
    });
  }
  // Over any session, without making a table: without a table there is no lock.
  template <class T>
  Result<T> run_if_there(const std::function<Result<T>(Connection&)>& step) {
    return client_.template run_if_there<T>([&](Connection& c) {
      table_.adapt(c, client_.options());
      return step(c);
    });
  }
  Result<typename Table::Row> read_row(const Key& key) {
    return run_if_there<typename Table::Row>(
        [&](Connection& c) { return table_.read_row(c, name_of(key), client_.usual_deadline()); });
  }

  // A new session takes the locks of the grant, so that its end still wakes the next one.
  Result<Renewal> extend(const Lease& lease, Duration ttl, const std::string& ended) {
    OwnGrant* h = held(lease.key, lease.owner);
    const std::string name = name_of(lease.key);
    TRY(r, run<typename Table::Renewed>(h, [&](Connection& c) {
          return table_.renew(c, name, lease.owner, ttl.count(), client_.usual_deadline(), ended,
                              lease.ended);
        }));
    if (!r.token) {
      let_go(lease.key, lease.owner);
      return Lost{"the database does not have it any more: it expired, or was removed"};
    }
    if (h) {
      r.known.wake = std::move(h->known.wake);
      h->known = std::move(r.known);
      if (!h->connection && table_.setup().wakes)
        if (auto c = client_.connection(client_.usual_deadline())) {
          table_.adopt(**c, name, r.mine, h->known, client_.usual_deadline());
          h->connection = std::move(*c);
        }
      if (h->connection) (void)Table::keep_session(*h->connection, ttl, client_.usual_deadline());
    }
    Lease kept{lease.key, lease.owner};
    kept.mode = r.mine.mode;
    kept.token = *r.token;
    kept.slot = r.mine.slot;
    kept.deadline = lease_end(r.sent, ttl);
    return Kept{std::move(kept), r.revoked};
  }

  Result<std::optional<KeyView>> view_of(Connection& c, const std::string& stored) {
    const std::string name = client_.options().prefix + stored;
    TRY(row, table_.read_row(c, name, client_.usual_deadline()));
    if (!row.exists) return std::nullopt;
    LockState s = row.state;
    TRY(waiting, table_.waiters(c, name, client_.usual_deadline()));
    for (auto& w : waiting)
      if (!s.holder(w.owner, row.now)) s.waiters.push_back(std::move(w));
    if (s.holders.empty() && s.waiters.empty() && s.fence == 0) return std::nullopt;
    std::string key = row.holders.key;
    if (const auto named = key_from_store_name(stored)) key = named->text();
    KeyView v = view(s, key.empty() ? stored : key, row.now);
    s.expire(row.now);
    for (const auto& h : s.holders) {
      const auto shown = std::find_if(v.holders.begin(), v.holders.end(),
                                      [&](const HolderView& one) { return one.token == h.token; });
      if (const Micros granted = row.holders.granted_at(h); row.now >= granted)
        shown->held = Duration{row.now - granted};
      shown->revoked = h.token <= row.revoked;
      if (h.since > row.now + 1'000'000)
        v.notes.push_back(
            "the server's clock went back since this grant: it ends that much later, unless it is "
            "released");
    }
    v.last_run = row.last_run;
    if (row.start) v.noted_start = row.start->at;
    if (!table_.setup().wakes) v.notes.push_back("wake=poll: waiters poll");
    return v;
  }

  Client client_;
  Table table_;
  const Traits& traits_;
  std::uint64_t wakeups_ = 0;
  std::map<std::pair<std::string, Owner>, OwnGrant> held_;
  UnansweredReleases unanswered_;
};

}  // namespace dlock
