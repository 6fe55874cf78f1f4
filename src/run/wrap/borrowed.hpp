// SPDX-License-Identifier: Apache-2.0
// `run --handle`: a Backend whose locks another process acquired. "Acquiring" one checks by a
// renewal that the handle still holds it; releasing it does nothing, because that is left to the
// process that acquired it.
#pragma once
#include <memory>
#include "core/backend.hpp"
#include "core/sequencer.hpp"

namespace dlock::run {

// The owner of a request is ignored: the handle has the holder.
std::unique_ptr<Backend> borrowed(std::unique_ptr<Backend>, Handle);

}  // namespace dlock::run
