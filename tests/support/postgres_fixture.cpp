// SPDX-License-Identifier: Apache-2.0
#include "support/fixture_main.hpp"
#include "support/postgres_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::postgres_installed()) return dlock::test::without("postgres");
  return dlock::test::serve(argc, argv,
                            [] { return std::make_unique<dlock::test::PostgresServer>(); });
}
