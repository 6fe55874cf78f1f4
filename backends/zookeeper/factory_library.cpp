// SPDX-License-Identifier: Apache-2.0
#include <zookeeper/zookeeper_version.h>
#include "zookeeper/factory.hpp"

namespace dlock::zookeeper {

std::vector<std::string> libraries() { return {"libzookeeper_st " ZOO_VERSION}; }

}  // namespace dlock::zookeeper
