// SPDX-License-Identifier: Apache-2.0
// Removing what a store keeps of keys for ever, the fence above all. That is no part of locking: a token must never fall, so it is only for keys that
// nobody will ever want again (bench).
#pragma once
#include <span>
#include <string_view>
#include "core/backend.hpp"

namespace dlock {

struct Purger {
  std::string_view family;
  // Removes every trace of these keys, below the prefix of the URL. Keys that are not there: fine.
  Result<void> (*purge)(const Url&, const Traits&, const Settings&, std::span<const Key>);
};

// Of the families that can; one explicit table, beside that of the backends.
std::span<const Purger> purgers() noexcept;

}  // namespace dlock
