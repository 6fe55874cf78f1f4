// SPDX-License-Identifier: Apache-2.0
#include "file/lock_table.hpp"
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <string>
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::file;

TEST_CASE("/proc/locks: granted locks of a file are found between thousands that wait") {
  // The kernel indents each waiter by its place in the queue.
  std::string text =
      "1: POSIX  ADVISORY  WRITE 7 fd:01:131 0 EOF\n1: FLOCK  ADVISORY  READ 8 08:01:131 0 EOF\n";
  for (int i = 1; i <= 3000; ++i)
    text += "1:" + std::string(static_cast<std::size_t>(i), ' ') +
            "-> FLOCK  ADVISORY  WRITE 9 08:01:131 0 EOF\n";
  text +=
      "2: FLOCK  ADVISORY  READ 10 08:01:131 0 EOF\n3: FLOCK  ADVISORY  WRITE 11 08:01:132 0 EOF\n";
  const Fd table{::memfd_create("locks", MFD_CLOEXEC)};
  REQUIRE(::write(table.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  REQUIRE(::lseek(table.get(), 0, SEEK_SET) == 0);
  const auto found = read_lock_table(table.get(), ::gnu_dev_makedev(8, 1), 131).value();
  REQUIRE(found.size() == 2);
  CHECK(found[0].pid == 8);
  CHECK_FALSE(found[0].exclusive);
  CHECK(found[1].pid == 10);
}

TEST_CASE("/proc/locks: an empty one says nothing, as there is always a lock of our own") {
  const Fd table{::memfd_create("locks", MFD_CLOEXEC)};
  CHECK_FALSE(read_lock_table(table.get(), ::gnu_dev_makedev(8, 1), 131));
  if (::access("/proc/locks", R_OK) == 0) CHECK(flock_entries(0, 0));
}
