// SPDX-License-Identifier: Apache-2.0
#include "support/catch/run.hpp"

int main(int argc, char** argv) { return dlock::test::run_catch(argc, argv); }
