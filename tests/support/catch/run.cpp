// SPDX-License-Identifier: Apache-2.0
#include "support/catch/run.hpp"
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int dlock::test::run_catch(int argc, char** argv) { return Catch::Session().run(argc, argv); }
