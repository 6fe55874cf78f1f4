// SPDX-License-Identifier: Apache-2.0
// The handle with which a lock is renewed, released or checked.
#pragma once
#include <optional>
#include <string>
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "core/sequencer.hpp"
#include "run/keeper_socket.hpp"

namespace dlock::cli {

// --handle (literal, - or @FILE), or DLOCK_HANDLE if it is a handle of this store. The handle is a
// secret: no message repeats it. Errc::usage: there is none; Errc::config: a file that cannot be
// read or contains no handle.
Result<Handle> require_handle(const Options&, const Store&);

// Handles of locks that only the process behind `acquire --keep` can act for: their `extra` names
// its socket.
// Handle::extra, called in the keeper itself: it says where this process is. `name`: of the socket.
std::string keeper_extra(const std::string& name);
// Asks the keeper of the handle. nullopt: it has none, so the store must be asked.
Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle&, std::string_view what);

}  // namespace dlock::cli
