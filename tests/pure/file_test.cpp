// SPDX-License-Identifier: Apache-2.0
#include "util/file.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include "util/fd.hpp"

using namespace dlock;

TEST_CASE("write_all writes a whole text into a non-blocking pipe") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  const Fd from(ends[0]), to(ends[1]);
  const std::string text(1 << 18, 'x');  // more than a pipe holds
  int error = -1;
  std::thread writer([&] { error = write_all(to.get(), text); });
  std::size_t seen = 0;
  for (char block[4096]; seen < text.size();) {
    pollfd p{from.get(), POLLIN, 0};
    ::poll(&p, 1, -1);
    if (const ssize_t n = ::read(from.get(), block, sizeof block); n > 0)
      seen += static_cast<std::size_t>(n);
  }
  writer.join();
  CHECK(error == 0);
  const Fd read_only(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(write_all(read_only.get(), "x") == EBADF);
}

TEST_CASE("a file is trusted only if others cannot have written it") {
  char name[] = "/tmp/dlock-file-XXXXXX";
  const Fd file(::mkostemp(name, O_CLOEXEC));
  REQUIRE(file);
  ::unlink(name);
  const auto with = [&](mode_t mode, mode_t forbidden) {
    REQUIRE(::fchmod(file.get(), mode) == 0);
    return why_untrusted(file.get(), {.forbidden = forbidden});
  };
  CHECK(with(0600, Trust::others_any).empty());
  CHECK(with(0640, Trust::others_any) == "has mode 0640, which lets others in; use chmod 600");
  CHECK(with(0644, Trust::others_write).empty());
  CHECK(with(0664, Trust::others_write) == "others may write to it; use chmod go-w");
  CHECK(with(0664, S_IWOTH).empty());
  CHECK(with(0666, S_IWOTH) == "all users may write to it; use chmod o-w");
  const Fd device(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(why_untrusted(device.get(), {.forbidden = 0}) == "is not a regular file");
  CHECK(why_untrusted(device.get(), {.forbidden = 0, .regular = false}).empty());
  CHECK(why_untrusted(directory.get(), {.forbidden = 0, .regular = false}) == "is a directory");
}

TEST_CASE("the home directory is an absolute path or nothing") {
  const char* const before = std::getenv("HOME");
  const std::string kept = before ? before : "";
  ::setenv("HOME", "/somewhere", 1);
  CHECK(home_directory() == "/somewhere");
  ::setenv("HOME", "relative", 1);
  CHECK(home_directory() != "relative");
  before ? ::setenv("HOME", kept.c_str(), 1) : ::unsetenv("HOME");
}
