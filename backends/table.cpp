// SPDX-License-Identifier: Apache-2.0
// Every backend of this binary, and those that it was built without. A new one is a line in each table.
#include "core/backend.hpp"
#include "file/file_backend.hpp"
#if DLOCK_WITH_MYSQL
#include "mysql/mysql_backend.hpp"
#endif
#if DLOCK_WITH_REDIS
#include "redis/redis_backend.hpp"
#include "redlock/redlock_backend.hpp"
#endif
#if DLOCK_WITH_ZOOKEEPER
#include "zookeeper/zookeeper_backend.hpp"
#endif

namespace dlock {
namespace {

constexpr BackendFactory built_in[] = {
    file::factory,
#if DLOCK_WITH_REDIS
    redis::factory,     redlock::factory,
#endif
#if DLOCK_WITH_ZOOKEEPER
    zookeeper::factory,
#endif
#if DLOCK_WITH_MYSQL
    mysql::factory,
#endif
};

[[maybe_unused]] constexpr std::string_view redis_schemes[] = {"redis", "rediss", "redis+unix", "redis+sentinel",
                                                               "redis+cluster"};
[[maybe_unused]] constexpr std::string_view redlock_schemes[] = {"redlock"};
[[maybe_unused]] constexpr std::string_view zookeeper_schemes[] = {"zookeeper", "zk"};
[[maybe_unused]] constexpr std::string_view mysql_schemes[] = {"mysql", "mariadb", "mysql+unix"};

constexpr AbsentBackend absent[] = {
#if !DLOCK_WITH_REDIS
    {"redis", "DLOCK_WITH_REDIS", redis_schemes},
    {"redlock", "DLOCK_WITH_REDIS", redlock_schemes},
#endif
#if !DLOCK_WITH_ZOOKEEPER
    {"zookeeper", "DLOCK_WITH_ZOOKEEPER", zookeeper_schemes},
#endif
#if !DLOCK_WITH_MYSQL
    {"mysql", "DLOCK_WITH_MYSQL", mysql_schemes},
#endif
    {},  // the end
};

}  // namespace

std::span<const BackendFactory> backends() noexcept { return built_in; }

std::span<const AbsentBackend> absent_backends() noexcept { return {absent, std::size(absent) - 1}; }

}  // namespace dlock
