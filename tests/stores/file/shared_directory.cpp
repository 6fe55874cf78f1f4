// SPDX-License-Identifier: Apache-2.0
// A lock directory of a group (mode 2770): its members exclude each other, other users are refused.
#include <grp.h>
#include <sys/wait.h>
#include <filesystem>
#include <functional>
#include "stores/file/lease_files.hpp"
#include "stores/file/traced.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

constexpr gid_t team = 12000;

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

}  // namespace

TEST_CASE("members of the group exclude each other, whichever came first") {
  try {
    SharedDirectory shared(GENERATE(02770u, 0770u));
    Event held, go;
    As first(12001, {team}, [&] {
      const auto backend = open_in(shared.dir);
      const Granted g = take(*backend, request("k"));
      held.set();
      if (!go.comes()) return 1;
      return backend->release(g.lease).value() == Released::yes ? 0 : 2;
    });
    REQUIRE(held.comes());
    CHECK_FALSE(shared.gets_it(12002));
    Event queued;
    As second(12002, {team}, [&] {
      const auto backend = open_in(shared.dir);
      auto waiter = in_queue(*backend, request("k"));
      queued.set();
      return backend->release(take(*waiter).lease).value() == Released::yes ? 0 : 2;
    });
    REQUIRE(queued.comes());
    go.set();
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    // Root takes part, too; and the two members' files are still shared with the group.
    CHECK(free_now(*open_in(shared.dir), request("k")));
    CHECK(shared.gets_it(12001));
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a member that is killed before its FIFO is the group's bars no other member") {
  try {
    SharedDirectory shared;
    CHECK(shared.gets_it(12001));
    As(12001, {team}, [&] { return ::mkfifo((shared.dir + "/k/2").c_str(), 0660); }).wait();
    CHECK(shared.gets_it(12002));
    CHECK(files_of(shared.dir).size() == 1);  // state
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a user outside the group is refused") {
  try {
    SharedDirectory shared;
    CHECK(As(12003, {}, [&] {
            return refused(*open_in(shared.dir), request("k")) == Errc::denied ? 0 : 1;
          }).wait() == 0);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

// ---- what a member must not be able to do ------------------------------------------------------
namespace {

namespace fs = std::filesystem;

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
    REQUIRE(fs::is_empty(dir));
    char byte = 0;
    REQUIRE(::read(reader.get(), &byte, 1) == -1);  // nothing was written to it
  }
};

// What the member does in one moment: every name at that depth becomes a link that leads outside.
int lead_outside(const fs::path& locks, int depth, const Precious& to) {
  std::vector<fs::path> names;
  for (auto at =
           fs::recursive_directory_iterator(locks, fs::directory_options::skip_permission_denied);
       at != fs::recursive_directory_iterator(); ++at)
    if (at.depth() == depth) names.push_back(at->path());
  for (const fs::path& name : names) {
    struct stat st {};
    const std::string moved = name.string() + ".moved";
    if (::lstat(name.c_str(), &st) || ::rename(name.c_str(), moved.c_str())) return 1;
    const std::string& target = S_ISDIR(st.st_mode)    ? to.dir
                                : S_ISFIFO(st.st_mode) ? to.fifo
                                                       : to.file;
    if (::symlink(target.c_str(), name.c_str())) return 2;
  }
  return 0;
}

std::unique_ptr<Backend> open_recipe(const std::string& dir, const char* recipe) {
  const auto url = Url::parse("file:" + dir + "?recipe=" + recipe).value();
  const bool flock = std::string_view(recipe) == "flock";
  return file::factory.open(url, file::recipes[flock ? 1 : 0], {}).value();
}

// Root takes the key. Its result does not matter: what counts is what happens to the files outside.
void use_key(Backend& b, bool lease) {
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

}  // namespace

// A member may rename anything in there, at any moment. This once made root's dlock give a file of
// the member's choice mode 0660, because the mode of a new FIFO was set by name.
TEST_CASE(
    "links that a member puts over dlock's names, at any system call, change nothing outside") {
  try {
    const auto depth = GENERATE(0, 1, 2);
    const char* const recipe = GENERATE("lease", "flock");
    if (depth == 2 && std::string_view(recipe) == "lease") return;  // no files at that depth
    int steps = 0;
    for (bool ended = false; !ended; ++steps) {
      SharedDirectory shared;
      const Precious precious(shared.parent);
      Traced root([&](const std::function<void()>& halt) {
        ::umask(077);
        const auto backend = open_recipe(shared.dir, recipe);
        halt();
        use_key(*backend, recipe[0] == 'l');
      });
      for (int i = 0; i < steps && !ended; ++i) ended = !root.step();
      if (ended) break;
      INFO("recipe " << recipe << ", depth " << depth << ", halt " << steps);
      // 1: the name has just gone
      (void)As(12002, {team}, [&] { return lead_outside(shared.dir, depth, precious); }).wait();
      (void)root.finish();
      precious.check_untouched();
    }
    CHECK(steps > 40);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

TEST_CASE("a foreign FIFO put in place of a waiter's gets no message") {
  try {
    SharedDirectory shared;
    const Precious precious(shared.parent);
    const auto backend = open_in(shared.dir), other = open_in(shared.dir);
    const Granted held = take(*backend, request("k"));
    const auto before = files_of(shared.dir);
    auto waiter = in_queue(*other, request("k"));
    for (const std::string& name : files_of(shared.dir)) {
      if (std::find(before.begin(), before.end(), name) != before.end()) continue;
      const std::string path = shared.dir + "/k/" + name;  // the waiter's
      REQUIRE(::unlink(path.c_str()) == 0);
      SECTION("a second link to it") { REQUIRE(::link(precious.fifo.c_str(), path.c_str()) == 0); }
      SECTION("the FIFO itself") {
        REQUIRE(::rename(precious.fifo.c_str(), path.c_str()) == 0);
        REQUIRE(::symlink(path.c_str(), precious.fifo.c_str()) == 0);
      }
    }
    (void)backend->release(held.lease);
    char byte = 0;
    CHECK(::read(precious.reader.get(), &byte, 1) == -1);
  } catch (const Skip& skip) { note_skip(skip.why); }
}
