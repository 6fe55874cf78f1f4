// SPDX-License-Identifier: Apache-2.0
// A full disk: nothing is granted that was not written, and a held lock can be released.
#include <sched.h>
#include <sys/mount.h>
#include "stores/file/lease_files.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

// A filesystem of 256 KiB that only this process sees.
class SmallDisk {
 public:
  SmallDisk() {
    static const bool apart = ::unshare(CLONE_NEWNS) == 0 &&
                              ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    need(apart, "the right to mount a small disk");
    need(::mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, "size=256k,mode=0700") == 0,
         "the right to mount a small disk");
  }
  ~SmallDisk() { ::umount2(dir_.path().c_str(), MNT_DETACH); }
  const std::string& path() const { return dir_.path(); }
  void fill() {
    const Fd file(::open((dir_ / "ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(file);
    const std::string block(4096, 'x');
    while (::write(file.get(), block.data(), block.size()) > 0) {}
    REQUIRE(errno == ENOSPC);
  }
  void clear() { REQUIRE(::unlink((dir_ / "ballast").c_str()) == 0); }

 private:
  test::TempDir dir_;
};

template <class Body>
void on_small_disk(Body body) {
  try {
    SmallDisk disk;
    body(disk);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

}  // namespace

TEST_CASE("full before the first use: a clear error, no grant, and nothing to repair afterwards") {
  on_small_disk([](SmallDisk& disk) {
    disk.fill();
    const auto backend = open_in(disk.path());
    std::string message;
    const auto code = refused(*backend, request("k"), &message);
    REQUIRE(code);
    CHECK((*code == Errc::cannot_create || *code == Errc::unavailable));
    CHECK_THAT(message, Catch::Contains("No space left on device"));
    disk.clear();
    CHECK(free_now(*backend, request("k")));
  });
}

TEST_CASE("full since the first grant: the space for a release was reserved") {
  on_small_disk([](SmallDisk& disk) {
    const auto holder = open_in(disk.path()), other = open_in(disk.path());
    Request r = request("k");
    r.lock_delay = 60s;  // without the release, the key would stay locked for so long
    const Granted held = take(*holder, r);
    disk.fill();
    CHECK(holder->release(held.lease).value() == Released::yes);
    CHECK(free_now(*other, request("k")));
  });
}

TEST_CASE("full with a queue larger than the reserved space: the key is free after the release") {
  on_small_disk([](SmallDisk& disk) {
    const auto holder = open_in(disk.path()), other = open_in(disk.path());
    const Granted held = take(*holder, request("k"));
    std::vector<std::unique_ptr<Backend>> backends;
    std::vector<std::unique_ptr<Waiter>> waiters;
    bool full = false;
    for (int i = 0; i < 100 && !full; ++i) {
      if (i == 2) disk.fill();
      Request r = request("k");
      r.identity.reason = std::string(180, 'r');
      backends.push_back(open_in(disk.path()));
      auto w = backends.back()->enqueue(r).value();
      auto answer = w->poll(0s);
      full = !answer;
      if (answer) waiters.push_back(std::move(w));
    }
    REQUIRE(full);
    REQUIRE(waiters.size() > 2);
    CHECK(holder->release(held.lease).value() == Released::yes);
    CHECK(take(*waiters[0]).lease.token > held.lease.token);
  });
}

TEST_CASE("full with a long queue: each waiter gets its turn") {
  on_small_disk([](SmallDisk& disk) {
    auto holder = open_in(disk.path());
    Granted held = take(*holder, request("k"));
    std::vector<std::unique_ptr<Backend>> backends;
    std::vector<std::unique_ptr<Waiter>> waiters;
    for (int i = 0; i < 60; ++i) {
      backends.push_back(open_in(disk.path()));
      waiters.push_back(in_queue(*backends.back(), request("k")));
    }
    disk.fill();
    CHECK(holder->release(held.lease).value() == Released::yes);
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      const Granted next = take(*waiters[i]);
      CHECK(next.lease.token > held.lease.token);
      held = next;
      CHECK(backends[i]->release(next.lease).value() == Released::yes);
    }
  });
}

namespace {

// All turns of a queue behind a holder, on a full disk: those that can hold together do.
void check_turns(SmallDisk& disk, const std::vector<Request>& queue) {
  const auto holder = open_in(disk.path());
  Request first = request("k");
  first.lock_delay = 60s;  // without the release, the key would stay locked for so long
  const Granted held = take(*holder, first);
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiting;
  for (const Request& r : queue) {
    backends.push_back(open_in(disk.path()));
    waiting.push_back(in_queue(*backends.back(), r));
  }
  disk.fill();
  REQUIRE(holder->release(held.lease).value() == Released::yes);
  std::vector<std::optional<Granted>> turns(queue.size());
  for (std::size_t released = 0, next = 0; released < queue.size();) {
    for (bool granted = true; granted && next < queue.size();) {
      const auto answer = waiting[next]->poll(next == released ? 10s : 0s);
      if (!answer) FAIL(next << ": " << answer.error().message);
      granted = std::holds_alternative<Granted>(*answer);
      if (granted) turns[next++] = std::get<Granted>(*answer);
    }
    REQUIRE(next > released);
    for (; released < next; ++released)
      REQUIRE(backends[released]->release(turns[released]->lease).value() == Released::yes);
  }
}

}  // namespace

TEST_CASE("full with a long queue of readers: each gets its turn") {
  on_small_disk([](SmallDisk& disk) {
    Request r = request("k");
    r.mode = Mode::shared;
    r.identity.reason = std::string(200, 'r');
    std::vector<Request> queue;
    for (int i = 0; i < 60; ++i) {
      r.owner = Owner::random();
      queue.push_back(r);
    }
    check_turns(disk, queue);
  });
}

TEST_CASE("full with a long queue for permits: each gets its turn") {
  on_small_disk([](SmallDisk& disk) {
    Request r = request("k");
    r.mode = Mode::permit;
    r.limit = 18;
    std::vector<Request> queue;
    for (int i = 0; i < 47; ++i) {
      r.owner = Owner::random();
      queue.push_back(r);
    }
    check_turns(disk, queue);
  });
}
