// SPDX-License-Identifier: Apache-2.0
// The factory of family `file`: recipes `lease` (default) and `flock`. What they guarantee: README.md beside this file.
#pragma once
#include "core/backend.hpp"

namespace dlock::file {

extern const BackendFactory factory;

}  // namespace dlock::file
