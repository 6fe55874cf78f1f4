// SPDX-License-Identifier: Apache-2.0
// Parses the values of options strictly, and sets them. Every error is Errc::usage and names the
// value and what is allowed.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include "cli/options/options.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"

namespace dlock::cli {

// Accepts only digits, and a number from `least` to `most`.
Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t least, std::uint64_t most);

// Accepts TERM, SIGTERM, 15, RTMIN, RTMIN+3, RTMAX-1.
Result<int> parse_signal(std::string_view text);

// Returns the index of `text` among the words "a|b|c".
Result<std::size_t> parse_choice(std::string_view text, std::string_view choices);

// Accepts 1, true, yes, on; 0, false, no, off.
Result<bool> parse_switch(std::string_view text);

// Setters, for a column of the option table: they set a field of Options from a text.

template <auto Field>
Result<void> on(Options& o, std::string_view) {
  o.*Field = true;
  return {};
}

template <auto Field>
Result<void> any_text(Options& o, std::string_view value) {
  o.*Field = value;
  return {};
}

template <auto Field>
Result<void> text(Options& o, std::string_view value) {
  if (value.empty()) return fail(Errc::usage, "must not be empty");
  return any_text<Field>(o, value);
}

// Adds a value to a list. If the list has the value already, that is an error.
template <auto Field>
Result<void> added_text(Options& o, std::string_view value) {
  auto& all = o.*Field;
  if (value.empty()) return fail(Errc::usage, "must not be empty");
  if (std::ranges::find(all, value) != all.end())
    return fail(Errc::usage, "{} twice", quoted(value));
  all.push_back(value);
  return {};
}

// Sets the field to the result of `Parse`.
template <auto Parse, auto Field>
Result<void> parsed(Options& o, std::string_view value) {
  TRY(made, Parse(value));
  o.*Field = made;
  return {};
}

template <auto Field>
Result<void> duration(Options& o, std::string_view value) {
  return parsed<parse_duration, Field>(o, value);
}

template <auto Field>
Result<void> positive_duration(Options& o, std::string_view value) {
  TRY_VOID(duration<Field>(o, value));
  if (o.*Field > Duration{}) return {};
  return fail(Errc::usage, "{} must be longer than 0", quoted(value));
}

template <std::uint64_t Least, std::uint64_t Most, auto Field>
Result<void> number(Options& o, std::string_view value) {
  TRY(n, parse_number(value, Least, Most));
  o.*Field = static_cast<std::remove_reference_t<decltype(o.*Field)>>(n);
  return {};
}

// Sets the field to the index of the text among the words "a|b|c".
template <const auto& Choices, auto Field>
Result<void> choice(Options& o, std::string_view value) {
  TRY(index, parse_choice(value, Choices));
  o.*Field = static_cast<std::remove_reference_t<decltype(o.*Field)>>(index);
  return {};
}

}  // namespace dlock::cli
