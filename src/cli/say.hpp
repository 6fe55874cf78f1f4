// SPDX-License-Identifier: Apache-2.0
// The two ways out: words for people on stderr, results on stdout.
#pragma once
#include <string_view>
#include "core/error.hpp"

namespace dlock::cli {

// "dlock: <message>\n" in one write(2), so that lines of several processes do not mix.
void say(std::string_view message);

// The same without a prefix, for what is more than a message.
void put_on_stderr(std::string_view text);

// All of `text` on stdout. Errc::cannot_create when it cannot be written; never raises SIGPIPE.
Result<void> put(std::string_view text);

// Errc::usage unless stdout is open for writing.
Result<void> stdout_usable();

}  // namespace dlock::cli
