// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "support/fixture_main.hpp"
#include "support/redlock_masters.hpp"

using namespace dlock::test;

namespace {

struct Three : RedlockMasters {
  Three() : RedlockMasters(Setup{.count = 3}) {}
  std::string url() const { return RedlockMasters::url(""); }
};

}  // namespace

int main(int argc, char** argv) {
  if (!installed("redis-server")) return without("redis-server");
  return serve(argc, argv, [] { return std::make_unique<Three>(); });
}
