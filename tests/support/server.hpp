// SPDX-License-Identifier: Apache-2.0
// Shared by all throw-away servers of the tests.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include "support/temp_dir.hpp"

namespace dlock::test {

// Status of a test program that could not run because a server program is not installed; ctest
// shows it as skipped. With CI=true in the environment it is a failure instead.
inline constexpr int skipped = 77;
int without(std::string_view program);  // prints it; returns the exit status
bool installed(std::string_view program);

using TestDirectory = TempDir;

// A port of 127.0.0.1 that was free a moment ago.
std::uint16_t free_port();

// Starts a program that dies with the test program, in its own process group (a Ctrl-C at the
// terminal is for the tests), and with its standard descriptors on /dev/null, or its output in the
// file `log`.
pid_t start_server(const std::vector<std::string>& words,
                   const std::vector<std::string>& environment = {}, const std::string& log = {});

}  // namespace dlock::test
