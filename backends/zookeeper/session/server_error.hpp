// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "core/error.hpp"
#include "zookeeper/options.hpp"

namespace dlock::zookeeper {

// Not answered, or the connection broke: whether it was carried out is unknown.
bool unknown(int rc) noexcept;
// The error for an unexpected reply other than ZOK.
Error server_error(const Options&, std::string_view operation, int rc);

}  // namespace dlock::zookeeper
