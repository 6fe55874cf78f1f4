// SPDX-License-Identifier: Apache-2.0
// A lock directory of a group (mode 2770): its members exclude each other, nobody else gets in.
#include <grp.h>
#include <poll.h>
#include <sys/wait.h>
#include <functional>
#include "contract/file/lease_files.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

constexpr gid_t team = 12000;

// Runs `body` as another user, in a child; its result is the exit status. 99: threw.
class As {
 public:
  As(uid_t user, std::vector<gid_t> groups, const std::function<int()>& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    int status = 98;
    if (::setgroups(groups.size(), groups.data()) == 0 && ::setgid(user) == 0 && ::setuid(user) == 0) {
      ::umask(077);  // what an unfriendly login gives
      try {
        status = body();
      } catch (const std::exception& e) {
        std::printf("as uid %u: %s\n", user, e.what());
        std::fflush(stdout);
        status = 99;
      }
    }
    ::_exit(status);
  }
  ~As() {
    if (pid_ > 0 && !waited_) (void)::kill(pid_, SIGKILL), (void)wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
    waited_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void kill() { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_;
  bool waited_ = false;
};

struct SharedDirectory {
  test::TempDir parent;
  std::string dir = parent / "locks";
  SharedDirectory() {
    need(::geteuid() == 0, "to be root, who alone can be two users");
    REQUIRE(::chmod(parent.path().c_str(), 0755) == 0);
    REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
    REQUIRE(::chown(dir.c_str(), 0, team) == 0);
    REQUIRE(::chmod(dir.c_str(), 02770) == 0);
  }
};

}  // namespace

TEST_CASE("members of the group exclude each other, whoever came first") {
  try {
    SharedDirectory shared;
    Event held, go;
    As first(12001, {team}, [&] {
      const auto backend = open_in(shared.dir);
      const Granted g = take(*backend, request("k"));
      held.set();
      pollfd wait{go.fd(), POLLIN, 0};
      if (::poll(&wait, 1, 30'000) != 1) return 1;
      return backend->release(g.lease).value() == Released::yes ? 0 : 2;
    });
    pollfd wait{held.fd(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 30'000) == 1);
    CHECK(As(12002, {team}, [&] { return free_now(*open_in(shared.dir), request("k")) ? 1 : 0; }).wait() == 0);
    Event queued;
    As second(12002, {team}, [&] {
      const auto backend = open_in(shared.dir);
      auto waiter = in_queue(*backend, request("k"));
      queued.set();
      return backend->release(take(*waiter).lease).value() == Released::yes ? 0 : 2;
    });
    pollfd in_line{queued.fd(), POLLIN, 0};
    REQUIRE(::poll(&in_line, 1, 30'000) == 1);
    go.set();
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    // Root, too; and what the two have made has not become theirs alone.
    CHECK(free_now(*open_in(shared.dir), request("k")));
    CHECK(As(12001, {team}, [&] { return free_now(*open_in(shared.dir), request("k")) ? 0 : 1; }).wait() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a member that is killed frees the key for the others") {
  try {
    SharedDirectory shared;
    Event held;
    As first(12001, {team}, [&] {
      const auto backend = open_in(shared.dir);
      const Granted g = take(*backend, request("k"));
      held.set();
      ::pause();
      return 0;
    });
    pollfd wait{held.fd(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 30'000) == 1);
    first.kill();
    CHECK(first.wait() == -SIGKILL);
    CHECK(As(12002, {team}, [&] { return free_now(*open_in(shared.dir), request("k")) ? 0 : 1; }).wait() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("who is not in the group is refused") {
  try {
    SharedDirectory shared;
    CHECK(As(12003, {}, [&] { return refused(*open_in(shared.dir), request("k")) == Errc::denied ? 0 : 1; }).wait() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}
