// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/base.hpp"

namespace dlock::zookeeper {
Result<std::vector<Finding>> Base::doctor() { return std::vector<Finding>{}; }
}  // namespace dlock::zookeeper
