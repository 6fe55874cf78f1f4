// SPDX-License-Identifier: Apache-2.0
// The two outputs of dlock: messages on stderr, results on stdout.
//
// `acquire --output env` prints lines for `eval`. A shell evaluates an empty text with success, so
// the script would go on without the lock. So if dlock cannot print a grant, it prints `(exit N)`,
// and N is not 0.
#pragma once
#include <string_view>
#include "core/error.hpp"
#include "report/outcome.hpp"

namespace dlock::cli {

// Prints the line "dlock: MESSAGE" in one write(2), so that lines of several processes do not mix.
void say(std::string_view message);
void say_warning(std::string_view message);  // with level "warning" in JSON

// From now on say() writes JSON objects (--log-format json).
void say_as_json() noexcept;

// Prints a longer text on stderr, without the prefix.
void print_on_stderr(std::string_view text);

// Writes all of `text` to stdout. Errc::cannot_create: it could not write. It never raises SIGPIPE.
Result<void> print(std::string_view text);

// Opens a substitute for each closed descriptor of 0, 1 and 2, so that no file of ours gets that
// number and receives messages. The substitute of 0 cannot be read and those of 1 and 2 cannot be
// written, so programs still notice the closed descriptor. Do not call it in a command that starts
// a job, because run/ passes to the job the descriptors with which dlock was started.
void fill_closed_descriptors();

// Errc::usage unless stdout is open for writing.
Result<void> stdout_usable();

// Returns whether the words or DLOCK_OUTPUT ask for lines for eval, even if the words contain
// errors. argv[1] is the command, if there is one.
bool requests_env(int argc, char** argv) noexcept;

// From now on a signal that ends this process, and is not blocked, prints `(exit N)` first.
void fail_closed_on_signals() noexcept;

// Prints `(exit N)` if the outcome is a failure. It gives up on a stalled reader after 200 ms.
void fail_closed(const run::Outcome&) noexcept;

}  // namespace dlock::cli
