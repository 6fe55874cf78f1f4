// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "support/fixture_main.hpp"
#include "support/redis_server.hpp"

using namespace dlock::test;

int main(int argc, char** argv) {
  if (!installed("redis-server")) return without("redis-server");
  return serve(argc, argv, [] { return std::make_unique<RedisServer>(); });
}
