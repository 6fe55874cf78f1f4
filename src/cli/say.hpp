// SPDX-License-Identifier: Apache-2.0
// The two outputs: messages on stderr, results on stdout.
//
// `acquire --output env` prints lines for `eval`. An empty text would be evaluated with success, so
// that a script went on without the lock: instead of a grant `(exit N)` is printed, N not 0.
#pragma once
#include <string_view>
#include "core/error.hpp"
#include "report/outcome.hpp"

namespace dlock::cli {

// "dlock: <message>\n" in one write(2), so that lines of several processes do not mix.
void say(std::string_view message);
void say_warning(std::string_view message);  // of that level in JSON

// From now on say() writes JSON objects (--log-format json).
void say_as_json() noexcept;

// The same without a prefix, for longer texts.
void put_on_stderr(std::string_view text);

// All of `text` on stdout. Errc::cannot_create when it cannot be written; never raises SIGPIPE.
Result<void> put(std::string_view text);

// Fills a closed 0, 1 or 2, so that no file of ours gets that number and receives messages. The
// filler can neither be read from (0) nor written to (1, 2), so the closed descriptor is still
// noticed. Not before run/ takes over: it passes a job the descriptors that dlock was started with.
void fill_closed_descriptors();

// Errc::usage unless stdout is open for writing.
Result<void> stdout_usable();

// Whether these words, or DLOCK_OUTPUT, ask for lines for eval. They need not be right; argv[1] is
// the verb, if they are.
bool requests_env(int argc, char** argv) noexcept;

// From now on the line is printed by a signal that ends this process, too, unless it is blocked.
void fail_closed_on_signals() noexcept;

// Prints the line if this is a failure. A reader that does not read has 200 ms.
void fail_closed(const run::Outcome&) noexcept;

}  // namespace dlock::cli
