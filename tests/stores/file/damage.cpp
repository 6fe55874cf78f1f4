// SPDX-License-Identifier: Apache-2.0
// A state file that is torn, damaged, of another version or gone: nothing is granted that the
// remaining data cannot justify.
#include <fmt/format.h>
#include <cstring>
#include "stores/file/lease_files.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

constexpr off_t slot_size = 1 << 20;

std::uint64_t number_in(const std::string& slot) {
  return std::strtoull(slot.c_str() + std::strlen("dlock1 "), nullptr, 10);
}

// The slot written last: 0 or 1.
int newest_slot(const std::string& state) {
  const std::string all = content(state);
  if (all.size() <= slot_size) return 0;
  return number_in(all) > number_in(all.substr(slot_size)) ? 0 : 1;
}
void overwrite(const std::string& path, off_t at, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(file);
  REQUIRE(::pwrite(file.get(), text.data(), text.size(), at) == static_cast<ssize_t>(text.size()));
}

}  // namespace

TEST_CASE("a torn newest slot: its change did not happen, the slot before counts") {
  test::TempDir dir;
  const auto holder = open_in(dir.path()), other = open_in(dir.path());
  const Granted held = take(*holder, detached(request("k"), 60s));
  const Lease more = std::get<Kept>(holder->renew(held.lease, 600s).value()).lease;
  REQUIRE(more.token == held.lease.token);
  // A byte of the body: as if the second of a pwrite's two pages had not reached the disk.
  overwrite(state_of(dir.path()), newest_slot(state_of(dir.path())) * slot_size + 90, "#");
  CHECK(other->check(key("k"), held.lease.token).value() == Validity::valid);
  CHECK_FALSE(free_now(*other, request("k")));
  const auto view = other->inspect(key("k")).value();
  REQUIRE(view);
  REQUIRE(view->holders.size() == 1);
  CHECK(*view->holders[0].remaining <= 60s);
  CHECK(holder->release(held.lease).value() == Released::yes);
  CHECK(take(*other, request("k")).lease.token > held.lease.token);
}

TEST_CASE("a torn first change: the key is as if never used") {
  test::TempDir dir;
  const auto backend = open_in(dir.path());
  take(*backend, detached(request("k"), 60s));
  // Power failed before the end of the only change had reached the disk.
  const auto length = static_cast<off_t>(content(state_of(dir.path())).size());
  REQUIRE(length > slot_size);
  REQUIRE(::truncate(state_of(dir.path()).c_str(), length - 10) == 0);
  CHECK(free_now(*backend, request("k")));
}

TEST_CASE("both slots damaged in this boot: an error that names the remedy, and no grant") {
  test::TempDir dir;
  const auto holder = open_in(dir.path()), other = open_in(dir.path());
  const Granted held = take(*holder, detached(request("k"), 60s));
  REQUIRE(kept(holder->renew(held.lease, 60s)));
  for (const off_t slot : {off_t{0}, slot_size}) overwrite(state_of(dir.path()), slot + 90, "#");
  std::string message;
  CHECK(refused(*other, request("k"), &message) == Errc::protocol);
  CHECK_THAT(message, Catch::Contains("is damaged") && Catch::Contains("delete the file"));
  CHECK(other->check(key("k"), held.lease.token).error().code == Errc::protocol);
  CHECK(other->inspect(key("k")).error().code == Errc::protocol);
  const auto listed = list(*other).value();
  REQUIRE(listed.size() == 1);
  CHECK_THAT(listed[0].unknown_reason, Catch::Contains("is damaged"));  // and so not free
  REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
  CHECK(take(*other, request("k")).lease.token > held.lease.token);
}

TEST_CASE("a state of another version, or with an unknown line, is refused as a whole") {
  test::TempDir dir;
  const auto backend = open_in(dir.path());
  take(*backend, detached(request("k"), 60s));
  Errc expected = Errc::protocol;
  SECTION("version") {
    overwrite(state_of(dir.path()), newest_slot(state_of(dir.path())) * slot_size, "dlock2");
    expected = Errc::usage;  // no damage: a newer dlock wrote it
  }
  SECTION("text before the number") {
    overwrite(state_of(dir.path()), 0, std::string(200, 'x'));
    overwrite(state_of(dir.path()), slot_size, std::string(200, 'x'));
  }
  const auto other = open_in(dir.path());
  CHECK(refused(*other, request("k")) == expected);
}

TEST_CASE("a damaged line of the tail: an error for who needs it, and no grant out of turn") {
  test::TempDir dir;
  const file::Tuning tuning{.queue = {.waiters = 1}};
  const auto holder = open_in(dir.path(), 5s, tuning), other = open_in(dir.path(), 5s, tuning);
  const Granted held = take(*holder, request("k"));
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 3; ++i) {
    backends.push_back(open_in(dir.path(), 5s, tuning));
    waiters.push_back(in_queue(*backends.back(), request("k")));
  }
  REQUIRE(content(state_of(dir.path())).compare(slot_size, 7, "dlock1 ") == 0);
  overwrite(state_of(dir.path()), 2 * slot_size + 40, "#");
  std::string message;
  CHECK(refused(*other, request("k", Mode::shared), &message) == Errc::protocol);
  CHECK_THAT(message, Catch::Contains("is damaged") && Catch::Contains("delete the file"));
  CHECK(other->inspect(key("k")).error().code == Errc::protocol);
  // What needs the holder and the first waiter only goes on.
  CHECK(other->check(key("k"), held.lease.token).value() == Validity::valid);
  CHECK(kept(holder->renew(held.lease, 30s)));
  CHECK(holder->release(held.lease).value() == Released::yes);
  // The second comes after the first and cannot be known.
  CHECK_FALSE(waiters[0]->poll(patient));
  CHECK(refused(*other, request("k", Mode::shared)) == Errc::protocol);
  waiters.clear();
  REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
  CHECK(take(*other, request("k")).lease.token > held.lease.token);
}

TEST_CASE("who joins a long queue needs the first waiters and the last, and no other") {
  test::TempDir dir;
  const file::Tuning tuning{.queue = {.waiters = 2}};
  const auto b = open_in(dir.path(), 5s, tuning);
  const Granted held = take(*b, request("k"));
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 10; ++i) waiters.push_back(in_queue(*b, request("k")));
  const std::string before = content(state_of(dir.path())).substr(2 * slot_size, 41);
  overwrite(state_of(dir.path()), 2 * slot_size + 40, "#");
  waiters.push_back(b->enqueue(request("k")).value());
  CHECK(std::get<Waiting>(step(*waiters.back(), 0s)).ahead == 10);
  CHECK_FALSE(free_now(*b, request("k")));
  overwrite(state_of(dir.path()), 2 * slot_size + 40, before.substr(40));
  CHECK(b->inspect(key("k")).value()->waiters.size() == 11);
  CHECK(b->release(held.lease).value() == Released::yes);
  for (const auto& w : waiters) CHECK(b->release(take(*w).lease).value() == Released::yes);
}

TEST_CASE("the state is deleted under an attached holder: no grant before it ends") {
  test::TempDir dir;
  const auto holder = open_in(dir.path()), other = open_in(dir.path());
  // Without earlier grants the new state would give the same token again; with some it would not,
  // and finds the holder only by looking for it.
  const int earlier = GENERATE(0, 3);
  for (int i = 0; i < earlier; ++i) REQUIRE(free_now(*holder, request("k")));
  const Granted held = take(*holder, request("k"));
  REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
  auto next = other->enqueue(request("k")).value();
  REQUIRE(std::holds_alternative<Waiting>(step(*next, 0s)));
  CHECK(kept(holder->renew(held.lease, 30s)));
  CHECK(std::holds_alternative<Waiting>(step(*next, 0s)));
  CHECK(holder->release(held.lease).value() == Released::yes);
  CHECK(take(*next).lease.token > held.lease.token);
}

TEST_CASE("the state is deleted under a holder: unknown until the next contender, and not free") {
  test::TempDir dir;
  const auto holder = open_in(dir.path()), other = open_in(dir.path());
  const Granted held = take(*holder, request("k"));
  REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
  const auto seen = other->inspect(key("k")).value();
  REQUIRE(seen);
  CHECK_THAT(seen->unknown_reason, Catch::Contains("state file was lost; 1 process"));
  REQUIRE(list(*other).value().size() == 1);
  CHECK_FALSE(list(*other).value()[0].unknown_reason.empty());
  CHECK(kept(holder->renew(held.lease, 30s)));
  CHECK(other->inspect(key("k")).value()->unknown_reason.empty());
  REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
  holder->release(held.lease).value();
  CHECK_FALSE(other->inspect(key("k")).value());
}

TEST_CASE("the state is deleted while many wait: all are granted, one at a time") {
  test::TempDir dir;
  const auto holder = open_in(dir.path());
  const Granted held = take(*holder, request("k"));
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 4; ++i) {
    backends.push_back(open_in(dir.path()));
    waiters.push_back(in_queue(*backends.back(), request("k")));
  }
  REQUIRE(::unlink(state_of(dir.path()).c_str()) == 0);
  REQUIRE(holder->release(held.lease));
  FencingToken newest = held.lease.token;
  std::optional<std::size_t> inside;
  std::size_t served = 0;
  std::vector<bool> done(waiters.size());
  for (const Deadline end = later(Clock::now(), patient);
       served < waiters.size() && Clock::now() < end;)
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      if (done[i]) continue;
      auto answer = waiters[i]->poll(10ms);
      REQUIRE(answer);
      auto* const g = std::get_if<Granted>(&*answer);
      if (!g) continue;
      CHECK_FALSE(inside);
      CHECK(g->lease.token > newest);
      newest = g->lease.token;
      inside = i;
      for (std::size_t j = 0; j < waiters.size(); ++j)  // the others, while this one holds
        if (!done[j] && j != i) CHECK(std::holds_alternative<Waiting>(step(*waiters[j], 0s)));
      CHECK(backends[i]->release(g->lease).value() == Released::yes);
      inside.reset();
      done[i] = true;
      ++served;
    }
  CHECK(served == waiters.size());
}

TEST_CASE("the directory of a key is replaced: commits into the old one do not count") {
  test::TempDir dir;
  const auto backend = open_in(dir.path()), other = open_in(dir.path());
  const Granted held = take(*backend, request("k"));
  REQUIRE(::rename((dir / "k").c_str(), (dir / "old").c_str()) == 0);
  // nothing shows the first grant here: an operator moved the lock away
  const Granted next = take(*other, request("k"));
  CHECK(lost(backend->renew(held.lease, 30s)));
  CHECK(next.lease.token > held.lease.token);
}
