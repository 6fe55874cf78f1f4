// SPDX-License-Identifier: Apache-2.0
// Handles of locks that only the process behind `acquire --keep` can act for: their `extra` names
// its socket.
#pragma once
#include <optional>
#include <string>
#include "core/sequencer.hpp"
#include "run/keeper_socket.hpp"

namespace dlock::cli {

std::string new_keeper_name();  // of its socket
// Handle::extra, called in the keeper itself: it says where this process is
std::string keeper_extra(const std::string& name);
// Asks the keeper of the handle. nullopt: it has none, so the store must be asked.
Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle&, std::string_view what);

}  // namespace dlock::cli
