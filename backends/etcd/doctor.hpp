// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>
#include "core/backend.hpp"
#include "etcd/client/client.hpp"

namespace dlock::etcd {

// Is this cluster fit for locks? Changes nothing, but for a lease that it makes and revokes.
Result<std::vector<Finding>> examine(Client&);

}  // namespace dlock::etcd
