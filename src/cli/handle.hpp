// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "core/sequencer.hpp"

namespace dlock::cli {

// --handle (literal, - or @FILE), or DLOCK_HANDLE if it is a handle of this store. nullopt: none
// was given. The handle is a secret: no message repeats it. Errc::usage, or Errc::config for a file
// that cannot be read or contains no handle.
Result<std::optional<Handle>> find_handle(const Options&, const Store&);

// Errc::usage where --handle is required and there is none.
Result<Handle> require_handle(const Options&, const Store&);

}  // namespace dlock::cli
