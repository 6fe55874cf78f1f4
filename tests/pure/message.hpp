// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "core/error.hpp"
#include "core/text.hpp"

namespace dlock::test {

// What every message must be, whatever the input was: one bounded line without terminal control
// sequences.
inline bool is_good_message(const Error& e) {
  return e.code == Errc::usage && !e.message.empty() && e.message.size() < 2000 &&
         printable(e.message) == e.message && !e.message.ends_with('.');
}

}  // namespace dlock::test
