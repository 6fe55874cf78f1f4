// SPDX-License-Identifier: Apache-2.0
// The two outputs: messages on stderr, results on stdout.
#pragma once
#include <string_view>
#include "core/error.hpp"

namespace dlock::cli {

// "dlock: <message>\n" in one write(2), so that lines of several processes do not mix.
void say(std::string_view message);

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

}  // namespace dlock::cli
