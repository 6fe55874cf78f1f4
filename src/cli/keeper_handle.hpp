// SPDX-License-Identifier: Apache-2.0
// Handles of locks that only the process behind `acquire --keep` can speak for: their `extra` names its socket.
#pragma once
#include <optional>
#include <string>
#include "core/sequencer.hpp"
#include "run/keeper_socket.hpp"

namespace dlock::cli {

std::string new_keeper_name();                  // for Handle::extra
std::string socket_of(std::string_view extra);  // empty: this handle names no keeper
// Asks the keeper of the handle. nullopt: it has none, the store is to be asked.
Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle&, std::string_view what);

}  // namespace dlock::cli
