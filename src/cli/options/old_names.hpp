// SPDX-License-Identifier: Apache-2.0
// Options of 0.1.0 that are written otherwise now: on the command line, as a variable and in a
// configuration file they are errors that say how.
#pragma once
#include <string>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

struct OldName {
  std::string_view name;  // without dashes
  char letter;            // 0: none
  Verbs verbs;            // that had it
  std::string_view now;   // "use --status FD"
  std::string_view key;   // the option whose variable or key is meant; empty: `now` says it
};

// Null: it is none.
const OldName* find_old_name(std::string_view name, Verbs = ~0U) noexcept;
const OldName* find_old_letter(char, Verbs) noexcept;
const OldName* find_old_variable(std::string_view) noexcept;  // "DLOCK_STATUS_FD"

// "--status-fd no longer exists: use --status FD"; `shown` is the old name as it was written.
std::string no_longer(std::string_view shown, const OldName&, Source);

}  // namespace dlock::cli
