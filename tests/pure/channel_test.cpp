// SPDX-License-Identifier: Apache-2.0
// The channel between dlock and its guard: no message is lost because one side does not read.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <iterator>
#include "job/message.hpp"
#include "job/unix_socket.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace std::chrono_literals;
using ReceiveResult = Channel::ReceiveResult;

namespace {

struct BothEnds {
  Channel one{Fd{}}, other{Fd{}};
  BothEnds() {
    Fd a, b;
    REQUIRE(Channel::make_pair(a, b));
    one = Channel(std::move(a));
    other = Channel(std::move(b));
  }
  std::vector<Message> received() {
    std::vector<Message> all;
    Channel::Received r;
    for (ReceiveResult got; (got = other.receive(r)) == ReceiveResult::message || one.unsent();) {
      if (got == ReceiveResult::message) all.push_back(r.message);
      else REQUIRE(one.flush());
    }
    return all;
  }
};

template <class T>
bool is(const Message& m) {
  return std::holds_alternative<GuardEvent>(m) &&
         std::holds_alternative<T>(std::get<GuardEvent>(m));
}

bool has_deadlines(const Message& m) { return std::holds_alternative<order::Deadlines>(m); }

Message deadlines(Deadline kill_at) {
  return order::Deadlines{{no_deadline, kill_at, no_deadline}};
}

std::vector<Fd> some(std::size_t n) {
  std::vector<Fd> fds;
  for (std::size_t i = 0; i < n; ++i) fds.emplace_back(::eventfd(0, EFD_CLOEXEC));
  return fds;
}
std::vector<int> numbers(const std::vector<Fd>& fds) {
  std::vector<int> all;
  for (const Fd& fd : fds) all.push_back(fd.get());
  return all;
}

}  // namespace

TEST_CASE("what a peer sent before it exited is read, even if it had not read everything itself") {
  BothEnds c;
  REQUIRE(c.one.send(deadlines(Deadline{1s})));  // as a renewal that comes as the job ends
  REQUIRE(c.other.send(GuardEvent{event::JobExited{5}}));
  REQUIRE(c.other.send(GuardEvent{event::TreeDead{5, false}}));
  c.other.close();
  Channel::Received r;
  REQUIRE(c.one.receive(r) == ReceiveResult::message);
  CHECK(is<event::JobExited>(r.message));
  REQUIRE(c.one.receive(r) == ReceiveResult::message);
  CHECK(is<event::TreeDead>(r.message));
  CHECK(c.one.receive(r) == ReceiveResult::closed);
}

TEST_CASE("a peer that does not read still gets every deadline and signal") {
  BothEnds c;
  Deadline last{};
  for (int i = 1; i <= 20000; ++i)
    REQUIRE(c.one.send(deadlines(last = Deadline{std::chrono::seconds{i}})));
  CHECK(c.one.unsent());
  const GuardDeadlines later_one{.stop_by = Deadline{1s}};
  for (const int signal : {SIGTERM, SIGUSR1}) REQUIRE(c.one.send(order::Signal{{}, signal}));
  REQUIRE(c.one.send(order::Signal{later_one, SIGTERM}));
  REQUIRE(c.one.send(order::Signal{later_one, SIGTERM, true}));
  const auto all = c.received();
  CHECK(all.size() < 20000);  // superseded messages are not kept
  const auto newest = std::find_if(all.rbegin(), all.rend(), has_deadlines);
  REQUIRE(newest != all.rend());
  CHECK(std::get<order::Deadlines>(*newest).when.kill_at == last);
  for (const int signal : {SIGTERM, SIGUSR1})
    CHECK(std::count_if(all.begin(), all.end(), [&](const Message& m) {
            const auto* s = std::get_if<order::Signal>(&m);
            return s && s->number == signal && !s->whole_tree &&
                   (s->when.stop_by == later_one.stop_by) == (signal == SIGTERM);
          }) == 1);
  CHECK(std::get<order::Signal>(all.back()).whole_tree);
}

TEST_CASE("messages of the guard to a stopped dlock arrive in order when it continues") {
  BothEnds c;
  for (int i = 0; i < 20000; ++i)
    REQUIRE(c.one.send(i % 2 ? GuardEvent{event::JobContinued{}}
                             : GuardEvent{event::JobStopped{SIGTSTP, false}}));
  for (const GuardEvent& e : {GuardEvent{event::Expired{}}, GuardEvent{event::Killing{}},
                              GuardEvent{event::JobExited{0}}})
    REQUIRE(c.one.send(e));
  const auto all = c.received();
  REQUIRE(all.size() > 4);
  CHECK(is<event::JobContinued>(*(all.end() - 4)));
  CHECK(is<event::Expired>(*(all.end() - 3)));
  CHECK(is<event::Killing>(*(all.end() - 2)));
  CHECK(is<event::JobExited>(*(all.end() - 1)));
}

TEST_CASE("a peer that is dead") {
  BothEnds c;
  c.other.close();
  CHECK_FALSE(c.one.send(deadlines(no_deadline)));
  CHECK(c.one.send_with(order::Start{}, {}, {}) == EPIPE);
  CHECK_FALSE(c.one.unsent());
}

TEST_CASE("descriptors travel with a message, or ahead of it when they are too many for one") {
  BothEnds c;
  const auto n = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{64}, most_attached,
                          most_attached + 1, std::size_t{600});
  const auto fds = some(n);
  REQUIRE(c.one.send_with(order::Start{true, {}}, "A=b", numbers(fds)) == 0);
  Channel::Received r;
  std::vector<Fd> attached;
  while (c.other.receive(r) == ReceiveResult::message) {
    CHECK_FALSE(r.misses_fds);
    const bool last = attached.size() + r.attached.size() >= n;
    CHECK(std::holds_alternative<order::Start>(r.message) == last);
    CHECK(std::holds_alternative<order::HoldFds>(r.message) != last);
    std::move(r.attached.begin(), r.attached.end(), std::back_inserter(attached));
    if (last) CHECK(r.payload == "A=b");
  }
  REQUIRE(attached.size() == n);
  for (std::size_t i = 0; i < n; ++i) {
    eventfd_t value = 0;  // in the order in which they were sent
    ::eventfd_write(fds[i].get(), i + 1);
    if (::eventfd_read(attached[i].get(), &value) != 0 || value != i + 1) FAIL("descriptor " << i);
    if ((::fcntl(attached[i].get(), F_GETFD) & FD_CLOEXEC) == 0) FAIL("descriptor " << i);
  }
}

TEST_CASE("a start message does not overtake an older message") {
  BothEnds c;
  while (!c.one.unsent()) REQUIRE(c.one.send(deadlines(no_deadline)));
  CHECK(c.one.send_with(order::Start{}, {}, {}) == EAGAIN);
  const auto all = c.received();
  CHECK(std::all_of(all.begin(), all.end(), has_deadlines));
  CHECK(c.one.send_with(order::Start{}, {}, {}) == 0);
}

TEST_CASE("a message that is too long is refused with the reason") {
  BothEnds c;
  CHECK(c.one.send_with(order::Start{}, std::string(std::size_t{64} << 20, 'x'), {}) == EMSGSIZE);
}

TEST_CASE("a receiver out of descriptors reports that some are missing") {
  BothEnds c;
  const auto fds = some(8);
  REQUIRE(c.one.send_with(order::Start{}, {}, numbers(fds)) == 0);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(fds.back().get()) + 4;
  ::setrlimit(RLIMIT_NOFILE, &few);
  Channel::Received r;
  const auto got = c.other.receive(r);
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(got == ReceiveResult::message);
  CHECK(r.misses_fds);
  CHECK(r.attached.size() < fds.size());
}
