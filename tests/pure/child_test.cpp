// SPDX-License-Identifier: Apache-2.0
// What a child of the guard becomes: the program that execvp(3) would find, with its environment.
#include "job/child.hpp"
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include "support/temp_dir.hpp"

using namespace dlock;
using namespace dlock::run;

namespace {

// A file in `d`.
std::string made(const test::TempDir& d, const std::string& name, const std::string& text,
                 mode_t mode) {
  const std::string path = d / name;
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
  return path;
}

class Path {
 public:
  explicit Path(const char* value) {
    if (const char* was = std::getenv("PATH")) was_ = was;
    set(value);
  }
  ~Path() { set(was_ ? was_->c_str() : nullptr); }

 private:
  static void set(const char* value) { value ? ::setenv("PATH", value, 1) : ::unsetenv("PATH"); }
  std::optional<std::string> was_;
};

std::vector<std::string> files(std::vector<std::string> words) {
  const auto program = std::make_unique<Child>(std::move(words), Child::How{});
  std::vector<std::string> all;
  for (const char* const* file = program->files; *file; ++file) all.emplace_back(*file);
  return all;
}

struct Ended {
  int status = -1, error = 0;
  std::string said;
};

// Runs it with its standard output in a pipe.
Ended end_of(std::vector<std::string> words, const std::string& file = {}) {
  sigset_t all, mask;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &mask);
  int out[2], error[2];
  REQUIRE(::pipe(out) == 0);
  REQUIRE(::pipe2(error, O_CLOEXEC) == 0);
  const int own = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  ::dup2(out[1], 1);
  std::string changes;
  std::vector<char*> environment = changed_environment(changes);
  Child child(std::move(words),
              {environment.data(), {mask, SIG_DFL, SIG_DFL, SIG_DFL}, 0, error[1]}, file);
  const pid_t pid = start_child(child, -1);
  const int dumpable = ::prctl(PR_GET_DUMPABLE);
  ::dup2(own, 1);
  for (const int fd : {own, out[1], error[1]}) ::close(fd);
  CHECK(dumpable == 1);  // else hidepid= of /proc would hide the guard
  Ended e;
  if (::read(error[0], &e.error, sizeof e.error) < 0) e.error = errno;
  char text[256];
  for (ssize_t n; (n = ::read(out[0], text, sizeof text)) > 0;)
    e.said.append(text, static_cast<std::size_t>(n));
  for (const int fd : {out[0], error[0]}) ::close(fd);
  if (::waitpid(pid, &e.status, 0) != pid) e.status = -1;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  return e;
}

}  // namespace

TEST_CASE("a word without a slash is looked up in PATH") {
  const Path path("/a::/b:");
  CHECK(files({"x"}) == std::vector<std::string>{"/a/x", "x", "/b/x", "x"});
  CHECK(files({"./x"}) == std::vector<std::string>{"./x"});
  CHECK(files({""}).empty());
  const Path none(nullptr);
  CHECK(files({"x"}) == std::vector<std::string>{"/bin/x", "/usr/bin/x"});
  const std::string too_long(PATH_MAX, 'l');
  const Path bad((too_long + ":/c").c_str());
  CHECK(files({"x"}) == std::vector<std::string>{"/c/x"});
}

TEST_CASE("the child becomes the program") {
  const Ended e = end_of({"echo", "one", "two words"});
  CHECK(e.error == 0);
  CHECK(e.status == 0);
  CHECK(e.said == "one two words\n");
  CHECK(end_of({"sh", "-c", "exit 7"}, "/bin/sh").status == 7 << 8);
}

TEST_CASE("a file without a format of its own is run by the shell") {
  const test::TempDir d;
  const std::string file = made(d, "script", "echo $0 $2\nexit 3\n", 0755);
  const Ended e = end_of({file, "a", "b"});
  CHECK(e.said == file + " b\n");
  CHECK(e.status == 3 << 8);
}

TEST_CASE("the errno of a program that cannot be executed") {
  const test::TempDir d, further;
  made(d, "refused", "", 0644);
  const Path path((d.path() + ":" + further.path()).c_str());
  CHECK(end_of({"absent"}).error == ENOENT);
  CHECK(end_of({""}).error == ENOENT);
  CHECK(end_of({std::string(NAME_MAX + 1, 'x')}).error == ENAMETOOLONG);
  const Ended refused = end_of({"refused"});  // the last one is absent
  CHECK(refused.error == EACCES);
  CHECK(refused.status == 126 << 8);
  made(further, "refused", "echo ok\n", 0755);
  CHECK(end_of({"refused"}).said == "ok\n");
}

TEST_CASE("the environment with changes") {
  ::setenv("CHILD_TEST_A", "1", 1);
  ::setenv("CHILD_TEST_AB", "2", 1);
  ::setenv("CHILD_TEST_C", "3", 1);
  std::string changes("CHILD_TEST_A=\0CHILD_TEST_C\0CHILD_TEST_ABSENT\0CHILD_TEST_N=a=b\0", 62);
  std::vector<std::string> ours;
  for (const char* entry : changed_environment(changes))
    if (entry && std::string_view(entry).starts_with("CHILD_TEST")) ours.emplace_back(entry);
  CHECK(ours == std::vector<std::string>{"CHILD_TEST_AB=2", "CHILD_TEST_A=", "CHILD_TEST_N=a=b"});
  std::string nothing;
  CHECK(changed_environment(nothing).back() == nullptr);
}
