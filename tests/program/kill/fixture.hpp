// SPDX-License-Identifier: Apache-2.0
// A server that the program `store` (support/store.cpp) runs.
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

// `file` is written by it. Nothing: the server is not installed.
std::optional<Fixture> start_fixture(const char* store, const std::string& file);

}  // namespace dlock::test
