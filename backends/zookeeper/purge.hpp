// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/purge.hpp"

namespace dlock::zookeeper {

Result<void> purge(const Url&, const Traits&, const Settings&, std::span<const Key>);

}  // namespace dlock::zookeeper
