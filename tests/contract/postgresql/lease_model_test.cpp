// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` on a real server decides as LockState does, on a clock that the test sets, which
// meets the edges of deadlines. Each contender has its own session; some are lost.
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include "contract/model_driver.hpp"
#include "core/text.hpp"
#include "postgresql/lease/lease_table.hpp"
#include "postgresql_schema/schema.hpp"
#include "support/postgres_server.hpp"
#include "support/repeated.hpp"

using namespace dlock;
using namespace dlock::postgresql;
using namespace std::chrono_literals;

namespace {

class PostgresqlModel final : public test::ModelStore {
 public:
  PostgresqlModel() : table_({.clock = "current_setting('dlock.clock')::bigint"}) {
    std::string_view rest = schema::lease;
    while (!rest.empty()) database_.sql(take_word(rest, ';'));
  }

  void clear(const std::vector<Owner>&) override {
    for (auto& [owner, s] : sessions_) {
      run(*s.connection, "SELECT pg_advisory_unlock_all()");
      s.connection->locks.clear();
      s.connection->bell = 0;
      pool_.push_back(std::move(s.connection));
    }
    sessions_.clear();
    database_.sql("TRUNCATE dlock_lock, dlock_wait");
  }
  void set_clock(Micros now) override { now_ = now; }

  Acquired acquire(const LockState::Ask& ask) override {
    Session& s = session(ask.owner);
    LeaseTable::Asking asking{
        .name = "k", .key = "k", .ask = ask, .untried = s.fresh && now_ % 5 != 0};
    const auto out = must(table_.acquire(*s.connection, asking, soon()));
    s.fresh = false;
    const auto free = [](Micros t) { return t == never ? 0 : t; };
    if (const auto* g = std::get_if<LockState::Granted>(&out.answer)) {
      s.known = out.known;
      return {out.now, out.held ? "held" : "granted", fmt::format("{} {}", g->token, g->slot)};
    }
    if (const auto* w = std::get_if<LockState::Waiting>(&out.answer))
      return {out.now, "waiting",
              fmt::format("{} {}", must(table_.ahead(*s.connection, "k", ask.owner, soon())),
                          free(w->free_at))};
    s.fresh = true;
    return {out.now, "busy",
            fmt::format("{}", free(std::get<LockState::Busy>(out.answer).free_at))};
  }
  Counted release(const Owner& owner) override {
    Session& s = session(owner);
    const bool waits_again = waits(owner);  // then another session of the owner releases
    const bool knows = s.known && now_ % 4 != 0 && !waits_again;
    Connection& c = waits_again ? *any() : *s.connection;
    const bool was = must(table_.release(c, "k", owner, knows ? &*s.known : nullptr, soon()));
    s.known.reset();
    if (!waits_again) {
      must(table_.end_locks(*s.connection, "k", owner, "", false, soon()));
      s.fresh = true;
    }
    return {now_, was ? 1 : 0};
  }
  Renewed renew(const Owner& owner, Micros ttl) override {
    Session& s = session(owner);
    auto r = must(table_.renew(*s.connection, "k", owner, ttl, soon()));
    s.known.reset();
    if (r.token) s.known = r.known;
    return {now_, r.token, r.revoked};
  }
  Cancelled cancel(const Owner& owner) override {
    Session& s = session(owner);
    const bool waited = waits(owner);
    const bool held = must(table_.cancel(*s.connection, "k", owner, 0, soon()));
    s.fresh = true;
    s.known.reset();
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
    const int pid = found->second.connection->facts().pid;
    sessions_.erase(found);
    while (database_.value(fmt::format("SELECT count(*) FROM pg_locks WHERE pid={}", pid)) != "0")
      ::usleep(200);
    return true;
  }

  Contents contents(Micros now, const std::vector<Owner>&) override {
    Contents c;
    const auto s = seen();
    for (const auto& h : s.state.holders)
      if (h.free_at() > now) c.holders.insert(test::ModelRun::holder_text(h));
    for (const auto& w : must(table_.waiters(*any(), "k", soon())))
      c.waiters.push_back(
          fmt::format("{} {} {} {}", w.owner.hex(), static_cast<char>(w.mode), w.limit, w.meta));
    c.fence = s.state.fence;
    return c;
  }

 private:
  struct Session {
    std::unique_ptr<Connection> connection;
    bool fresh = true;
    std::optional<LeaseTable::Known> known;
  };
  static Deadline soon() { return Clock::now() + 30s; }
  template <class T>
  static T must(Result<T> r) {
    if (!r) FAIL(r.error().message);
    if constexpr (!std::is_void_v<T>) return std::move(*r);
  }
  static void run(Connection& c, std::string sql) {
    const Statement s{"", std::move(sql)};
    must(c.query("test", {s}, soon()));
  }
  std::unique_ptr<Connection> connect() {
    if (!pool_.empty()) {
      auto c = std::move(pool_.back());
      pool_.pop_back();
      return c;
    }
    Options o;
    o.user = "postgres";
    o.database = database_.name();
    o.op_timeout = 30s;
    auto& server = database_.server();
    return must(Connection::open(o, {{}, server.port(), server.directory()}, 10s));
  }
  void clock(Connection& c) {
    static const Statement set{"test_clock", "SELECT set_config('dlock.clock',$1,false)"};
    must(c.query("test", {set, {std::to_string(now_)}}, soon()));
  }
  Session& session(const Owner& owner) {
    auto& s = sessions_[owner];
    if (!s.connection) s.connection = connect();
    clock(*s.connection);
    return s;
  }
  Connection* any() {
    if (!admin_) admin_ = connect();
    clock(*admin_);
    return admin_.get();
  }
  LeaseTable::Seen seen() { return must(table_.look(*any(), "k", soon())); }
  bool waits(const Owner& owner) {
    return database_.value(
               fmt::format("SELECT count(*) FROM dlock_wait WHERE owner='{}'", owner.hex())) != "0";
  }

  test::PostgresDatabase database_;
  LeaseTable table_;
  std::map<Owner, Session> sessions_;
  std::vector<std::unique_ptr<Connection>> pool_;
  std::unique_ptr<Connection> admin_;
  Micros now_ = 0;
};

}  // namespace

TEST_CASE("the database and LockState decide alike, with a clock that meets every edge") {
  const unsigned seed = Catch::rngSeed();
  PostgresqlModel store;
  test::ModelRun{store, {.invites = false, .by_patience = false}, seed}.run(test::repeated(20'000),
                                                                            seed);
}
