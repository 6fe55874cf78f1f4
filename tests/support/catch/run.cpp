// SPDX-License-Identifier: Apache-2.0
#include "support/catch/run.hpp"
#include <cstdio>
#include <cstdlib>
#include <random>
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

std::uint64_t dlock::test::seed() {
  static const std::uint64_t chosen = [] {
    const char* set = std::getenv("DLOCK_TEST_SEED");
    return set && *set ? std::strtoull(set, nullptr, 10) : std::uint64_t{std::random_device{}()};
  }();
  return chosen;
}

int dlock::test::run_catch(int argc, char** argv) {
  std::printf("seed %llu (DLOCK_TEST_SEED repeats it)\n", static_cast<unsigned long long>(seed()));
  std::fflush(stdout);
  Catch::Session session;
  session.configData().rngSeed = static_cast<unsigned>(seed());
  return session.run(argc, argv);
}
