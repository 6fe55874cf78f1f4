// SPDX-License-Identifier: Apache-2.0
// Handles of locks that only the process behind `acquire --keep` can speak for: their `extra` names its socket.
#pragma once
#include <optional>
#include <string>
#include "core/sequencer.hpp"
#include "run/keeper_socket.hpp"

namespace dlock::cli {

std::string new_keeper_name();                      // of its socket
std::string keeper_extra(const std::string& name);  // Handle::extra, in the keeper itself: it tells where this process is
// Asks the keeper of the handle. nullopt: it has none, the store is to be asked.
Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle&, std::string_view what);

}  // namespace dlock::cli
