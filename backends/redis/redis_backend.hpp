// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/backend.hpp"

namespace dlock::redis {

extern const BackendFactory factory;

}  // namespace dlock::redis
