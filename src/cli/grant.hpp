// SPDX-License-Identifier: Apache-2.0
// Grants as the verbs take and print them: handles and results.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "core/sequencer.hpp"
#include "report/outcome.hpp"
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
Result<std::optional<run::KeeperAnswer>> query_keeper_of(const Handle&, std::string_view what);

// The output of acquire: the handle alone, one JSON object, or lines for the eval of a shell; each
// with its newline. The leases in the order of the keys. `keeper`: where the process that keeps the
// lock listens; empty: the store alone is needed.
std::string text_of_grant(Output, const std::vector<Lease>&, const Store&, Duration ttl,
                          const std::string& keeper);

std::string_view mode_name(Mode) noexcept;  // "exclusive", "shared", "permit"

// --output json of renew, release and check, whose answer is otherwise the exit status: one object
// with the keys and "renewed", "released", "revoked" or "valid"; null: unknown, and "error" says
// why. Empty: another command, or nothing was asked (a usage or configuration error).
std::string json_of_answer(const Options&, const Result<run::Outcome>&);

}  // namespace dlock::cli
