// SPDX-License-Identifier: Apache-2.0
// `run --handle`: a Backend whose locks were taken by somebody else. "Taking" one checks that the handle still holds it, by a renewal;
// releasing it does nothing, because whoever took it gives it back.
#pragma once
#include <memory>
#include <string>
#include "core/backend.hpp"

namespace dlock::run {

// The requests' owner is that of the handle; `ticket`: Lease::ticket.
std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend>, std::string ticket);

}  // namespace dlock::run
