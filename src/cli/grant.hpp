// SPDX-License-Identifier: Apache-2.0
// How commands read and print grants: handles and results.
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

// Returns the handle of --handle (literal, - or @FILE), or of DLOCK_HANDLE if it belongs to this
// store. A handle is a secret, so no message repeats it. Errc::usage: there is no handle.
// Errc::config: a file is unreadable or contains no handle.
Result<Handle> require_handle(const GrantOptions&, const Store&);

// Some locks can be renewed and released only by the process behind `acquire --keep`. The `extra`
// field of their handles names the socket of that process. keeper_extra() returns this field for
// the socket `name`; only that process calls it.
std::string keeper_extra(const std::string& name);
// Asks the keeper of the handle. nullopt: the handle has no keeper, so ask the store.
Result<std::optional<run::KeeperAnswer>> query_keeper_of(const Handle&, std::string_view what);

// Returns the output of acquire, with its newline: the handle alone, one JSON object, or lines for
// a shell's eval. Leases are in the order of the keys. `keeper`: the socket of the process that
// keeps the lock; empty: no process is needed.
std::string text_of_grant(Output, const std::vector<Lease>&, const Store&, Duration ttl,
                          const std::string& keeper);

std::string_view mode_name(Mode) noexcept;  // "exclusive", "shared", "permit"

// Returns the JSON output of renew, release and check: one object with "keys" and the result. The
// result is named "renewed", "released", "revoked" or "valid". If it is unknown, its value is null,
// and "error" says why. Returns "" for another command, and after a usage or configuration error.
std::string json_of_answer(const Options&, const Result<run::Outcome>&);

}  // namespace dlock::cli
