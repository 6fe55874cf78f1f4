// SPDX-License-Identifier: Apache-2.0
// How each backend removes what it keeps of a key. A new one is a line.
#include "file/purge.hpp"
#if DLOCK_WITH_MYSQL
#include "mysql/purge.hpp"
#endif
#if DLOCK_WITH_REDIS
#include "redis/purge.hpp"
#include "redlock/purge.hpp"
#endif
#if DLOCK_WITH_ZOOKEEPER
#include "zookeeper/purge.hpp"
#endif

namespace dlock {
namespace {

constexpr Purger table[] = {
    {"file", file::purge},
#if DLOCK_WITH_REDIS
    {"redis", redis::purge},         {"redlock", redlock::purge},
#endif
#if DLOCK_WITH_ZOOKEEPER
    {"zookeeper", zookeeper::purge},
#endif
#if DLOCK_WITH_MYSQL
    {"mysql", mysql::purge},
#endif
};

}  // namespace

std::span<const Purger> purgers() noexcept { return table; }

}  // namespace dlock
