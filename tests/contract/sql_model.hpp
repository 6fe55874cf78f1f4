// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` of a database as a ModelStore (model_driver.hpp), on a clock that the test sets,
// which meets the edges of deadlines. Each contender has its own session; some are lost.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include "contract/model_driver.hpp"
#include "sql/sql_lease_table.hpp"
#include "support/repeated.hpp"

namespace dlock::test {

template <class T>
T must(Result<T> r) {
  if (!r) FAIL(r.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}
inline Deadline soon() { return Clock::now() + std::chrono::seconds{30}; }

template <class Connection, class Table>
class SqlModel : public ModelStore {
 public:
  explicit SqlModel(typename Table::Setup setup) : table_(setup) {}

  void clear(const std::vector<Owner>&) override {
    for (auto& [owner, s] : sessions_) {
      let_go(*s.connection);
      pool_.push_back(std::move(s.connection));
    }
    sessions_.clear();
    empty_tables();
  }
  void set_clock(Micros now) override { now_ = now; }

  Acquired acquire(const LockState::Acquisition& ask) override {
    Session& s = session(ask.owner);
    typename Table::Attempt attempt{.name = "k",
                                    .key = "k",
                                    .request = ask,
                                    .untried = s.fresh && now_ % 5 != 0,
                                    .first = s.fresh};
    attempt.distance = 1 + static_cast<unsigned>(now_ % 3);  // whom it waits for does not matter
    const auto out = must(table_.acquire(*s.connection, attempt, soon()));
    s.fresh = false;
    const auto free = [](Micros t) { return t == never ? 0 : t; };
    if (const auto* g = std::get_if<LockState::Granted>(&out.answer)) {
      s.written = out.written;
      return {out.now, out.held ? "held" : "granted", fmt::format("{} {}", g->token, g->slot)};
    }
    if (const auto* w = std::get_if<LockState::Waiting>(&out.answer))
      return {out.now, "waiting",
              fmt::format("{} {}", must(table_.ahead(*s.connection, "k", ask.owner, soon())),
                          free(w->free_at))};
    must(table_.release_locks(*s.connection, "k", ask.owner, "", true, soon()));
    s.fresh = true;
    return {out.now, "busy",
            fmt::format("{}", free(std::get<LockState::Busy>(out.answer).free_at))};
  }
  Counted release(const Owner& owner) override {
    Session& s = session(owner);
    const bool waits_again = waits(owner);  // then another session of the owner releases
    const bool knows = s.written && now_ % 4 != 0 && !waits_again;
    Connection& c = waits_again ? *any() : *s.connection;
    const bool was = must(table_.release(c, "k", owner, knows ? &*s.written : nullptr, soon()));
    s.written.reset();
    // While it waits it keeps what shows that it lives.
    if (!waits_again) {
      must(table_.release_locks(*s.connection, "k", owner, "", false, soon()));
      s.fresh = true;
    }
    return {now_, was ? 1 : 0};
  }
  Renewed renew(const Owner& owner, Micros ttl) override {
    Session& s = session(owner);
    auto r = must(table_.renew(*s.connection, "k", owner, ttl, soon()));
    s.written.reset();
    if (r.token) s.written = r.written;
    return {now_, r.token, r.revoked};
  }
  Cancelled cancel(const Owner& owner) override {
    Session& s = session(owner);
    const bool waited = waits(owner);
    const bool held = must(table_.cancel(*s.connection, "k", owner, 0, soon()));
    s.fresh = true;
    s.written.reset();
    return {now_, waited, held};
  }
  Counted force(FencingToken token) override {
    return {now_,
            static_cast<std::int64_t>(must(table_.force_release(*any(), "k", token, soon())))};
  }
  Counted revoke(FencingToken newest) override {
    return {now_, must(table_.revoke(*any(), "k", newest, soon())) ? 1 : 0};
  }
  bool check(const Owner& owner) override { return seen().state.holder(owner, now_) != nullptr; }
  bool check(FencingToken token) override {
    const auto s = seen();
    return std::any_of(s.state.holders.begin(), s.state.holders.end(),
                       [&](const auto& h) { return h.token == token && h.deadline > now_; });
  }
  bool lose(const Owner& owner) override {
    const auto found = sessions_.find(owner);
    if (found == sessions_.end()) return false;
    auto connection = std::move(found->second.connection);
    sessions_.erase(found);
    end(std::move(connection), owner);
    return true;
  }

  // The waiters' sessions end with the others, so their rows would count for nothing. What the
  // clients know stays.
  bool remember() override {
    execute("DELETE FROM remembered");
    execute("INSERT INTO remembered SELECT * FROM dlock_lock");
    return true;
  }
  void forget() override {
    execute("DELETE FROM dlock_wait");
    execute("DELETE FROM dlock_lock");
    execute("INSERT INTO dlock_lock SELECT * FROM remembered");
    const auto row = seen();
    for (auto& [owner, s] : sessions_) {
      let_go(*s.connection);
      s.fresh = !row.state.holder(owner, now_);  // who holds asks as after a lost reply
    }
  }

  Contents contents(Micros now, const std::vector<Owner>&) override {
    Contents c;
    const auto s = seen();
    for (const auto& h : s.state.holders)
      if (h.free_at() > now) c.holders.insert(ModelRun::holder_text(h));
    for (const auto& w : must(table_.waiters(*any(), "k", soon())))
      c.waiters.push_back(
          fmt::format("{} {} {} {}", w.owner.hex(), static_cast<char>(w.mode), w.limit, w.meta));
    c.fence = s.state.fence;
    return c;
  }

  void run(long steps) {
    execute("CREATE TABLE remembered AS SELECT * FROM dlock_lock");
    const unsigned seed = Catch::rngSeed();
    ModelRun{*this, {.invites = false, .by_patience = false}, seed}.run(repeated(steps), seed);
  }

 protected:
  virtual std::unique_ptr<Connection> connect() = 0;
  virtual void set_clock_of(Connection&, Micros) = 0;
  virtual void let_go(Connection&) = 0;  // of all its locks
  virtual void empty_tables() = 0;
  // Of this owner; the server has noticed when it returns.
  virtual void end(std::unique_ptr<Connection>, const Owner&) = 0;
  virtual void execute(const std::string& sql) = 0;
  virtual std::string value(const std::string& sql) = 0;  // of the first row

 private:
  struct Session {
    std::unique_ptr<Connection> connection;
    Micros clock = -1;  // that it was told
    bool fresh = true;
    std::optional<SqlWrittenRow> written;
  };
  std::unique_ptr<Connection> some() {
    if (pool_.empty()) return connect();
    auto c = std::move(pool_.back());
    pool_.pop_back();
    return c;
  }
  Session& session(const Owner& owner) {
    auto& s = sessions_[owner];
    if (!s.connection) s.connection = some();
    tell_clock(s);
    return s;
  }
  Connection* any() {
    if (!admin_.connection) admin_.connection = some();
    tell_clock(admin_);
    return admin_.connection.get();
  }
  void tell_clock(Session& s) {
    if (std::exchange(s.clock, now_) != now_) set_clock_of(*s.connection, now_);
  }
  typename Table::Row seen() { return must(table_.read_row(*any(), "k", soon())); }
  bool waits(const Owner& owner) {
    return value(fmt::format("SELECT COUNT(*) FROM dlock_wait WHERE owner='{}'", owner.hex())) !=
           "0";
  }

  Table table_;
  std::map<Owner, Session> sessions_;
  std::vector<std::unique_ptr<Connection>> pool_;
  Session admin_;
  Micros now_ = 0;
};

}  // namespace dlock::test
