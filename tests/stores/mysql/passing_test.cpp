// SPDX-License-Identifier: Apache-2.0
// Waiters that do not claim their turn, because they are stopped or because the server has not
// noticed their end, are passed, and swept; on a clock that the test sets.
#include "contract/sql_model.hpp"
#include "mysql/lease/lease_table.hpp"
#include "mysql_schema/schema.hpp"
#include "support/mariadb_server.hpp"

using namespace dlock;
using namespace dlock::mysql;
using namespace std::chrono_literals;
using test::must, test::soon;

namespace {

constexpr Micros second = 1'000'000, ttl = 30 * second;

class Scene {
 public:
  Scene() { database_.sql(schema::lease); }

  Micros now = 1'000 * second;

  // One contender, with a session of its own. One that is not asked any more is a stopped one.
  struct Contender {
    std::unique_ptr<Connection> connection;
    LeaseTable::Attempt attempt;
    const Owner& owner() const { return attempt.request.owner; }
  };
  Contender contender(Mode mode, unsigned limit = 2) {
    Contender c;
    Options o;
    o.user = "root";
    o.database = database_.name();
    o.op_timeout = 30s;
    c.connection = must(Connection::open(o, {"127.0.0.1", database_.port(), {}}, 30s));
    c.attempt = {
        .name = "k", .key = "k", .request = {.owner = Owner::random(), .mode = mode, .ttl = ttl}};
    if (mode == Mode::permit) c.attempt.request.limit = limit;
    return c;
  }
  LeaseTable::Decision answer(Contender& c) {
    set_clock(c);
    return must(table_.acquire(*c.connection, c.attempt, soon()));
  }
  bool granted(Contender& c) {
    return std::holds_alternative<LockState::Granted>(answer(c).answer);
  }
  bool waits(Contender& c) { return std::holds_alternative<LockState::Waiting>(answer(c).answer); }
  void renew(Contender& c) {
    set_clock(c);
    REQUIRE(must(table_.renew(*c.connection, "k", c.owner(), ttl, soon())).token);
  }
  void release(Contender& c) {
    set_clock(c);
    REQUIRE(must(table_.release(*c.connection, "k", c.owner(), nullptr, soon())));
    must(table_.release_locks(*c.connection, "k", c.owner(), "", true, soon()));
  }
  std::string rows() { return database_.value("SELECT COUNT(*) FROM dlock_wait"); }

 private:
  void set_clock(Contender& c) {
    must(c.connection->query("test", fmt::format("SET @dlock_clock={}", now), soon()));
  }
  test::Database database_;
  LeaseTable table_{{.clock = "@dlock_clock"}};
};

}  // namespace

TEST_CASE("a stopped permit is passed 3 s after there was room, though others hold and renew") {
  Scene s;
  auto a = s.contender(Mode::permit), b = s.contender(Mode::permit);
  auto stopped = s.contender(Mode::permit), next = s.contender(Mode::permit),
       last = s.contender(Mode::permit);
  REQUIRE(s.granted(a));
  REQUIRE(s.granted(b));
  for (auto* w : {&stopped, &next, &last}) REQUIRE(s.waits(*w));
  s.now += 10 * second;
  for (auto* w : {&next, &last}) CHECK(s.waits(*w));  // there is no room: nobody is slow
  s.release(a);
  CHECK(s.answer(next).idle);  // so it asks again in 3 s
  for (int i = 0; i < 3; ++i) {
    s.now += second;
    s.renew(b);
    CHECK(s.waits(next));
  }
  s.now += second / 10;
  CHECK(s.granted(next));
  CHECK(s.rows() == "1");  // of the last one: the stopped one was swept
  CHECK(s.waits(last));
  s.release(b);
  CHECK(s.granted(last));  // the next hand-over costs no time
  CHECK(s.waits(stopped));
  s.release(next);
  CHECK(s.granted(stopped));
}

TEST_CASE("a stopped waiter costs its time once, whatever it wants and whoever passes it") {
  for (const Mode slow : {Mode::exclusive, Mode::shared, Mode::permit})
    for (const Mode mode : {Mode::exclusive, Mode::shared, Mode::permit}) {
      CAPTURE(static_cast<char>(slow), static_cast<char>(mode));
      Scene s;
      auto holder = s.contender(Mode::exclusive), stopped = s.contender(slow, 1),
           next = s.contender(mode, 1);
      REQUIRE(s.granted(holder));
      REQUIRE(s.waits(stopped));
      REQUIRE(s.waits(next));
      s.now += second;
      s.release(holder);
      if (slow == Mode::shared && mode == Mode::shared) continue;  // they run together
      CHECK(s.waits(next));
      s.now += 31 * second / 10;
      CHECK(s.granted(next));
      CHECK(s.rows() == "0");
    }
}

TEST_CASE("who waits for a holder is not slow, and is not passed") {
  Scene s;
  auto reader = s.contender(Mode::shared), writer = s.contender(Mode::exclusive),
       second_reader = s.contender(Mode::shared);
  REQUIRE(s.granted(reader));
  REQUIRE(s.waits(writer));
  REQUIRE(s.waits(second_reader));
  for (int i = 0; i < 5; ++i) {
    s.now += 4 * second;
    CHECK(s.waits(second_reader));
  }
  s.renew(reader);

  Scene t;
  auto holder = t.contender(Mode::permit), narrow = t.contender(Mode::permit, 1),
       wide = t.contender(Mode::permit, 2);
  REQUIRE(t.granted(holder));
  REQUIRE(t.waits(narrow));
  REQUIRE(t.waits(wide));
  for (int i = 0; i < 5; ++i) {
    t.now += 4 * second;
    CHECK(t.waits(wide));
  }
}

TEST_CASE("the time of those ahead begins anew with each grant") {
  Scene s;
  auto a = s.contender(Mode::permit, 3), b = s.contender(Mode::permit, 3),
       c = s.contender(Mode::permit, 3);
  auto first = s.contender(Mode::permit, 3), second_one = s.contender(Mode::permit, 3),
       third = s.contender(Mode::permit, 3);
  for (auto* h : {&a, &b, &c}) REQUIRE(s.granted(*h));
  for (auto* w : {&first, &second_one, &third}) REQUIRE(s.waits(*w));
  s.release(a);
  CHECK(s.waits(third));
  s.now += 29 * second / 10;
  CHECK(s.granted(first));
  s.release(b);
  s.now += 29 * second / 10;
  CHECK(s.waits(third));  // 5.8 s after the room that `first` has taken
  s.now += 2 * second / 10;
  s.renew(c);
  CHECK(s.granted(third));
}

TEST_CASE("who does not queue passes stopped waiters as the next one in the queue does") {
  Scene s;
  const auto impatient = [&] {
    auto c = s.contender(Mode::exclusive);
    c.attempt.request.wait = false;
    return c;
  };
  auto holder = s.contender(Mode::exclusive), stopped = s.contender(Mode::exclusive),
       other = s.contender(Mode::shared);
  REQUIRE(s.granted(holder));
  for (auto* w : {&stopped, &other}) REQUIRE(s.waits(*w));
  s.release(holder);
  for (const Micros d : {29 * second / 10, 3 * second}) {  // 3 s for each of them
    s.now += d;
    auto early = impatient();
    CHECK_FALSE(s.granted(early));
  }
  s.now += 2 * second / 10;
  auto first = impatient(), next = impatient();
  REQUIRE(s.granted(first));
  CHECK(s.rows() == "0");
  CHECK_FALSE(s.granted(next));
  s.release(first);
  CHECK(s.granted(next));  // they cost their time once
  CHECK(s.waits(stopped));
}
