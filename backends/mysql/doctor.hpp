// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>
#include "mysql/client/client.hpp"

namespace dlock::mysql {

// Is this server fit for locks of that recipe? Only an unreachable one is an Error.
Result<std::vector<Finding>> examine(Client&, const Traits&);

}  // namespace dlock::mysql
