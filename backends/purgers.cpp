// SPDX-License-Identifier: Apache-2.0
// Which backends can remove what they keep of a key. A new one is a line.
#include "file/purge.hpp"
#if DLOCK_WITH_REDIS
#include "redis/purge.hpp"
#endif

namespace dlock {
namespace {

constexpr Purger table[] = {
    {"file", file::purge},
#if DLOCK_WITH_REDIS
    {"redis", redis::purge},
#endif
};

}  // namespace

std::span<const Purger> purgers() noexcept { return table; }

}  // namespace dlock
