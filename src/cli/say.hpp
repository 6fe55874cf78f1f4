// SPDX-License-Identifier: Apache-2.0
// The two outputs: messages on stderr, results on stdout.
//
// `acquire --output env` prints lines for `eval`. A shell evaluates an empty text with success, and
// the script would go on without the lock. So when no grant can be printed, the output is `(exit
// N)` with N other than 0.
#pragma once
#include <string_view>
#include "core/error.hpp"
#include "report/outcome.hpp"

namespace dlock::cli {

// Prints "dlock: <message>
// " in one write(2), so that lines of several processes do not mix.
void say(std::string_view message);
void say_warning(std::string_view message);  // with level "warning" in JSON

// Makes say() write JSON objects from now on (--log-format json).
void say_as_json() noexcept;

// Prints a longer text on stderr, without the prefix.
void print_on_stderr(std::string_view text);

// Writes all of `text` to stdout. Errc::cannot_create: it cannot be written. Never raises SIGPIPE.
Result<void> print(std::string_view text);

// Opens a filler on each closed descriptor of 0, 1 and 2, so that no file of ours gets that number
// and receives messages. Nobody can read from the filler of 0 or write to that of 1 or 2, so the
// closed descriptor is still noticed. Do not call it before run/ has taken over: run/ passes the
// job the descriptors that dlock was started with.
void fill_closed_descriptors();

// Errc::usage unless stdout is open for writing.
Result<void> stdout_usable();

// Whether the words or DLOCK_OUTPUT ask for lines for eval. The words may be wrong otherwise;
// argv[1] is the command, if there is one.
bool requests_env(int argc, char** argv) noexcept;

// From now on, a signal that ends this process prints the line first, unless the signal is blocked.
void fail_closed_on_signals() noexcept;

// Prints the line if the outcome is a failure. Gives up on a stalled reader after 200 ms.
void fail_closed(const run::Outcome&) noexcept;

}  // namespace dlock::cli
