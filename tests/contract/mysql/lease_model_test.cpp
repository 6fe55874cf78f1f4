// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` on a real server decides as LockState does, on a clock that the test sets, which
// meets the edges of deadlines. Each contender has its own session; some are lost.
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include "contract/model_driver.hpp"
#include "contract/mysql/compared.hpp"
#include "mysql/lease/lease_table.hpp"
#include "mysql_schema/schema.hpp"
#include "support/mariadb_server.hpp"
#include "support/repeated.hpp"

using namespace dlock;
using namespace dlock::mysql;
using namespace std::chrono_literals;

namespace {

class MysqlModel final : public test::ModelStore {
 public:
  explicit MysqlModel(bool named, test::MariadbServer* own = nullptr, bool compared = false)
      : database_(own ? std::make_unique<test::Database>(*own)
                      : std::make_unique<test::Database>()),
        table_({.clock = "@dlock_clock", .wakes = named}) {
    if (compared) compared_.emplace();
    database_->sql(schema::lease);
  }

  void clear(const std::vector<Owner>&) override {
    for (auto& [owner, s] : sessions_) {
      must(s.connection->query("test", "DO RELEASE_ALL_LOCKS()", soon()));
      s.connection->names.clear();
      s.connection->bell.clear();
      pool_.push_back(std::move(s.connection));
    }
    sessions_.clear();
    database_->sql("DELETE FROM dlock_lock; DELETE FROM dlock_wait");
  }
  void set_clock(Micros now) override { now_ = now; }

  Acquired acquire(const LockState::Ask& ask) override {
    Session& s = session(ask.owner);
    LeaseTable::Asking asking{
        .name = "k", .key = "k", .ask = ask, .untried = s.fresh && now_ % 5 != 0, .first = s.fresh};
    asking.distance = 1 + static_cast<unsigned>(now_ % 3);  // the name it waits for does not matter
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
    const Micros free_at = std::get<LockState::Busy>(out.answer).free_at;
    must(table_.end_locks(*s.connection, "k", ask.owner, "", true, soon()));
    s.fresh = true;
    return {out.now, "busy", fmt::format("{}", free(free_at))};
  }
  Counted release(const Owner& owner) override {
    Session& s = session(owner);
    const bool waits_again = waits(owner);  // then another session of the owner releases
    const bool knows = s.known.version != 0 && now_ % 4 != 0 && !waits_again;
    const bool was =
        must(table_.release(*s.connection, "k", owner, knows ? &s.known : nullptr, soon()));
    s.known = {};
    // While it waits it keeps its name.
    if (!waits_again) {
      must(table_.end_locks(*s.connection, "k", owner, "", true, soon()));
      s.fresh = true;
    }
    return {now_, was ? 1 : 0};
  }
  Renewed renew(const Owner& owner, Micros ttl) override {
    Session& s = session(owner);
    auto r = must(table_.renew(*s.connection, "k", owner, ttl, soon()));
    s.known = r.token ? r.known : LeaseTable::Known{};
    return {now_, r.token, r.revoked};
  }
  Cancelled cancel(const Owner& owner) override {
    Session& s = session(owner);
    const bool waited = waits(owner);
    const bool held = must(table_.cancel(*s.connection, "k", owner, 0, soon()));
    s.fresh = true;
    s.known = {};
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
    found->second.connection->abandon();
    sessions_.erase(found);
    if (compared_) compared_->paused = true;  // the end takes the server a moment
    while (database_->value(fmt::format(
               "SELECT IS_USED_LOCK('dl:{0}') IS NULL AND IS_USED_LOCK('dq:{0}') IS NULL",
               owner.hex())) != "1")
      ::usleep(200);
    if (compared_) compared_->paused = false;
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

  const test::Compared* compared() const noexcept { return compared_ ? &*compared_ : nullptr; }

 private:
  struct Session {
    std::unique_ptr<Connection> connection;
    bool fresh = true;
    LeaseTable::Known known;
  };
  static Deadline soon() { return Clock::now() + 30s; }
  template <class T>
  static T must(Result<T> r) {
    if (!r) FAIL(r.error().message);
    if constexpr (!std::is_void_v<T>) return std::move(*r);
  }
  std::unique_ptr<Connection> connect() {
    if (!pool_.empty()) {
      auto c = std::move(pool_.back());
      pool_.pop_back();
      return c;
    }
    Options o;
    o.user = "root";
    o.database = database_->name();
    o.op_timeout = 30s;
    return must(Connection::open(o, {"127.0.0.1", database_->port(), {}}, 10s));
  }
  void clock(Connection& c) {
    must(c.query("test", fmt::format("SET @dlock_clock={}", now_), soon()));
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
    return database_->value(
               fmt::format("SELECT COUNT(*) FROM dlock_wait WHERE owner='{}'", owner.hex())) != "0";
  }

  std::unique_ptr<test::Database> database_;
  std::optional<test::Compared> compared_;
  LeaseTable table_;
  std::map<Owner, Session> sessions_;
  std::vector<std::unique_ptr<Connection>> pool_;
  std::unique_ptr<Connection> admin_;
  Micros now_ = 0;
};

}  // namespace

TEST_CASE("the database and LockState decide alike, with a clock that meets every edge") {
  const unsigned seed = Catch::rngSeed();
  MysqlModel store{true};
  test::ModelRun{store, {.invites = false, .by_patience = false}, seed}.run(test::repeated(20'000),
                                                                            seed);
}

// With a statement-based binary log sessions are REPEATABLE READ, and rows read by a subquery are
// locked.
TEST_CASE("the same with REPEATABLE READ sessions") {
  test::MariadbServer own{{.config = {"log-bin=b", "server-id=7", "binlog_format=STATEMENT"}}};
  const unsigned seed = Catch::rngSeed();
  MysqlModel store{true, &own};
  test::ModelRun{store, {.invites = false, .by_patience = false}, seed}.run(test::repeated(3'000),
                                                                            seed);
}

// What tests/simulation makes of the recipe's SQL is worth as much as this comparison.
TEST_CASE("the simulated database answers as the server") {
  const unsigned seed = Catch::rngSeed();
  MysqlModel store{true, nullptr, true};
  test::ModelRun{store, {.invites = false, .by_patience = false}, seed}.run(test::repeated(5'000),
                                                                            seed);
  CHECK(store.compared()->rows > test::repeated(5'000));
  WARN(store.compared()->answers << " equal answers, " << store.compared()->rows << " rows");
}
