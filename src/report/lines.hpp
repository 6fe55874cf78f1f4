// SPDX-License-Identifier: Apache-2.0
// The format of the lines that dlock writes: messages on stderr, history for --trace, events for
// --status. Pure functions for any thread, except open_lines().
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/identity.hpp"
#include "core/lease.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// monostate: the field is left out
using FieldValue =
    std::variant<std::monostate, std::int64_t, std::string, std::vector<ProgramEnded::Process>>;
using Field = std::pair<const char*, FieldValue>;
using Fields = std::initializer_list<Field>;

FieldValue nanoseconds(Deadline);  // no_deadline becomes monostate

// Escapes a key for use between quotes, in JSON or as a Prometheus label. A key is valid UTF-8
// without control characters, so only two characters need escapes.
std::string escaped(std::string_view key);

std::string utc(std::int64_t wall_micros);  // in the format of RFC 3339

// "dlock: MESSAGE", or with `json` {"time","level","pid","key","message"}. If `key` is empty, the
// line has no key.
enum class MessageFormat { text, json };
std::string message_line(std::string_view level, std::string_view key, std::string_view message,
                         MessageFormat);

// {"event":NAME,"t":seconds of CLOCK_BOOTTIME,"time","host","key",...}
std::string status_line(std::string_view name, const Request&, std::span<const Field>);

// {"t":nanoseconds of CLOCK_BOOTTIME,"pid","ev","f","key","owner",...}. `owner` is a prefix of the
// id, never the secret. If key or owner is empty, the line lacks it.
struct TraceHead {
  std::string_view ev, f, key, owner;
};
std::string trace_line(const TraceHead&, std::span<const Field>);

// Opens a file for such lines, and creates it with mode 0600 if it is missing. Errc::cannot_create:
// the message names the option.
Result<Fd> open_lines(std::string_view option, const std::string& path);

}  // namespace dlock::run
