// SPDX-License-Identifier: Apache-2.0
// A server that one of the fixture programs (support/*_fixture.cpp) runs.
#pragma once
#include <optional>
#include <string>
#include "support/process.hpp"

namespace dlock::test {

struct Fixture {
  Process program;
  std::string url;
  pid_t server() const;
};

// `variable` names the program; FILE is written by it. Nothing: no such variable, or the server is
// not installed. Lives no longer than the thread that started it.
std::optional<Fixture> start_fixture(const char* variable, const std::string& file);

}  // namespace dlock::test
