// SPDX-License-Identifier: Apache-2.0
// Failures. Expected outcomes (busy, lost, not held) are values, and never an Error.
#pragma once
#include <fmt/core.h>
#include <exception>
#include <new>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace dlock {

// Says what the caller can do. core/exit_status.cpp maps each code to an exit status, in one table.
enum class Errc {
  usage,          // the request is invalid: change the command line
  config,         // configuration file, environment or secret file is wrong
  denied,         // authentication, permission or TLS verification failed
  cannot_create,  // the state directory, file or table cannot be created
  unavailable,    // the store is not reachable now; nothing was changed: try again
  timed_out,      // the outcome is unknown: the request may have been carried out
  protocol,       // malformed reply of the store; the outcome is unknown
  // This process has no free descriptor or memory. Nothing was changed; waiting does not help.
  exhausted,
  stale,     // fence: a newer token has been seen
  internal,  // a bug in dlock
};

struct Error {
  Errc code;
  std::string message;  // operation, redacted URL or path, cause; one line, no prefix, no full stop
};

// True if repeating the same request (same owner) later can help.
constexpr bool retryable(Errc c) noexcept {
  return c == Errc::unavailable || c == Errc::timed_out || c == Errc::protocol;
}

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Errc code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
template <class... Values>
tl::unexpected<Error> fail(Errc code, fmt::format_string<Values...> message, Values&&... values) {
  return fail(code, fmt::format(message, std::forward<Values>(values)...));
}
inline tl::unexpected<Error> fail(Error e) { return tl::unexpected<Error>(std::move(e)); }

// Returns what an exception of the standard library means: no memory is left, or dlock has a bug.
inline Error unexpected(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e))
    return {Errc::exhausted, "out of memory (ulimit -v)"};
  return {Errc::internal, std::string("this is a bug: ") + e.what()};
}

// TRY(name, expression): `expression` is a Result<T>. If it is an error, the enclosing function
// returns that error; otherwise `name` is a T& that lives to the end of the block. The function
// must return a Result, or a type to which a Result converts. TRY_VOID(expression) does the same,
// but ignores the value. Both return the error unchanged. If the message of the error must say
// more, write the `if` yourself, and name the operation in the message. TRY is two declarations and
// an `if`, so it cannot be the only statement of an unbraced `if`.
#define TRY(name, ...)                                                   \
  auto name##_or_error = (__VA_ARGS__);                                  \
  if (!name##_or_error) return fail(std::move(name##_or_error.error())); \
  auto& name = *name##_or_error
#define TRY_VOID(...)                                             \
  do {                                                            \
    if (auto nothing_or_error = (__VA_ARGS__); !nothing_or_error) \
      return fail(std::move(nothing_or_error.error()));           \
  } while (false)

}  // namespace dlock
