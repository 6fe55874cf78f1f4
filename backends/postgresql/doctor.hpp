// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/backend.hpp"
#include "postgresql/client/client.hpp"

namespace dlock::postgresql {

// Is this server fit for locks? What it says of itself, on a connection of its own.
Result<std::vector<Finding>> examine(Client&, const Traits&);

}  // namespace dlock::postgresql
