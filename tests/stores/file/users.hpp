// SPDX-License-Identifier: Apache-2.0
// A lock directory of several users, what they do there, and files that they must not reach.
#pragma once
#include <grp.h>
#include <sys/wait.h>
#include <filesystem>
#include <functional>
#include "stores/file/lease_files.hpp"

namespace dlock::contract {

inline constexpr gid_t team = 12000;

// Runs `body` as another user, in a child; its result is the exit status. 99: it threw.
class As {
 public:
  As(uid_t user, std::vector<gid_t> groups, const std::function<int()>& body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    int status = 98;
    if (::setgroups(groups.size(), groups.data()) == 0 && ::setgid(user) == 0 &&
        ::setuid(user) == 0) {
      ::umask(077);  // a restrictive login shell's umask
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

 private:
  pid_t pid_;
  bool waited_ = false;
};

struct SharedDirectory {
  test::TempDir parent;
  std::string dir = parent / "locks";
  explicit SharedDirectory(mode_t mode = 02770) {
    need(::geteuid() == 0, "root, as only root can act as two users");
    REQUIRE(::chmod(parent.path().c_str(), 0755) == 0);
    REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
    REQUIRE(::chown(dir.c_str(), 0, team) == 0);
    REQUIRE(::chmod(dir.c_str(), mode) == 0);
  }
  // A member, at once.
  bool gets_it(uid_t member) const {
    const int status =
        As(member, {team}, [&] { return free_now(*open_in(dir), request("k")) ? 0 : 1; }).wait();
    REQUIRE((status == 0 || status == 1));
    return status == 0;
  }
};

// Files of root, outside the lock directory and on its filesystem: a file and a directory that no
// member may read or change.
struct Precious {
  explicit Precious(const test::TempDir& parent)
      : file(parent / "file"), dir(parent / "dir"), fifo(parent / "fifo") {
    const Fd made(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(::write(made.get(), "precious", 8) == 8);
    REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    reader = Fd(::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    for (const std::string& path : {file, dir, fifo})
      REQUIRE(::chmod(path.c_str(), path == dir ? 0700 : 0600) == 0);
  }
  std::string file, dir, fifo;
  Fd reader;

  void check_untouched() const {
    for (const std::string& path : {file, dir, fifo}) {
      struct stat st {};
      REQUIRE(::lstat(path.c_str(), &st) == 0);
      INFO(path << " has mode " << std::oct << (st.st_mode & 07777) << std::dec << ", group "
                << st.st_gid);
      REQUIRE((st.st_mode & 07777) == (path == dir ? 0700u : 0600u));
      REQUIRE(st.st_gid == 0);
      REQUIRE(st.st_uid == 0);
    }
    REQUIRE(content(file) == "precious");
    REQUIRE(std::filesystem::is_empty(dir));
    char byte = 0;
    REQUIRE(::read(reader.get(), &byte, 1) == -1);  // nothing was written to it
  }
};

inline std::unique_ptr<Backend> open_recipe(const std::string& dir, const char* recipe) {
  const auto url = Url::parse("file:" + dir + "?recipe=" + recipe).value();
  const bool flock = std::string_view(recipe) == "flock";
  return file::factory.open(url, file::recipes[flock ? 1 : 0], {}).value();
}

// Root takes the key. Its result does not matter: what counts is what happens to the files outside.
inline void use_key(Backend& b, bool lease) {
  auto waiter = b.enqueue(request("k")).value();
  const auto answer = waiter->poll(0s);
  if (!answer || !std::holds_alternative<Granted>(*answer)) return;
  const Lease held = std::get<Granted>(*answer).lease;
  if (lease)
    (void)b.note_start(held, {{}, RunStart{1, wall_micros() * 2}}), (void)b.revoke(key("k"));
  (void)b.renew(held, 1h);
  (void)b.inspect(key("k"));
  (void)b.release(held, RunEnd{false, 1});
  (void)b.inspect(key("k"));
}

}  // namespace dlock::contract
