// SPDX-License-Identifier: Apache-2.0
// Short forms for tests that use the Redis backend.
#pragma once
#include <memory>
#include <string>
#include "redis/factory.hpp"
#include "store/factory.hpp"
#include "support/client.hpp"
#include "support/redis_server.hpp"

namespace dlock::test {

using redis::Reply;

// Throws with the message of the error.
std::unique_ptr<Backend> open_redis(const std::string& url, const Settings& settings = {},
                                    std::string_view recipe = "fair");

// Waits until so many clients block in the server; false: not within 5 s.
bool blocked_clients(RedisServer&, int wanted);
// Waits until a replica acknowledges all writes; false: not within 10 s.
bool replicates(RedisServer& master);
std::string info_field(RedisServer&, std::string_view section, std::string_view field);

}  // namespace dlock::test
