// SPDX-License-Identifier: Apache-2.0
// What tests need that start servers of their own.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dlock::test {

// Status of a test program that could not run because a server program is not installed; ctest shows it as skipped.
// With CI=true in the environment that is a failure instead.
inline constexpr int skipped = 77;
int without(std::string_view program);  // says so; answers the exit status
bool installed(std::string_view program);

// A directory of its own, removed with all that is in it.
class TestDirectory {
 public:
  TestDirectory();  // below $TMPDIR or /tmp
  explicit TestDirectory(const std::string& base);
  ~TestDirectory();
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// A port of 127.0.0.1 that was free a moment ago.
std::uint16_t free_port();

}  // namespace dlock::test
