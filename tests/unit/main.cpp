// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <random>
#include "support/catch/run.hpp"
#include "unit/random.hpp"

std::uint64_t dlock::test::seed() {
  static const std::uint64_t chosen = [] {
    const char* set = std::getenv("DLOCK_TEST_SEED");
    return set && *set ? std::strtoull(set, nullptr, 10) : std::uint64_t{std::random_device{}()};
  }();
  return chosen;
}

int main(int argc, char** argv) {
  std::printf("seed %llu (DLOCK_TEST_SEED repeats it)\n",
              static_cast<unsigned long long>(dlock::test::seed()));
  std::fflush(stdout);
  return dlock::test::run_catch(argc, argv);
}
