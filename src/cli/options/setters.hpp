// SPDX-License-Identifier: Apache-2.0
// Setters, the last column of the option table: how a value reaches a field of Options or of its
// members: text<&Options::reason>, text<&Options::bench, &BenchOptions::prefix>.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include "cli/options/options.hpp"
#include "cli/options/values.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"

namespace dlock::cli {

template <auto... Path>
auto& field(Options& o) noexcept {
  return (o.*....*Path);
}

template <auto... Path>
Result<void> on(Options& o, std::string_view) {
  field<Path...>(o) = true;
  return {};
}

template <auto... Path>
Result<void> any_text(Options& o, std::string_view value) {
  field<Path...>(o) = value;
  return {};
}

template <auto... Path>
Result<void> text(Options& o, std::string_view value) {
  if (value.empty()) return fail(Errc::usage, "must not be empty");
  field<Path...>(o) = value;
  return {};
}

// One more of several, each once.
template <auto... Path>
Result<void> added_text(Options& o, std::string_view value) {
  auto& all = field<Path...>(o);
  if (value.empty()) return fail(Errc::usage, "must not be empty");
  if (std::find(all.begin(), all.end(), value) != all.end())
    return fail(Errc::usage, fmt::format("{} twice", quoted(value)));
  all.push_back(value);
  return {};
}

template <auto... Path>
Result<void> duration(Options& o, std::string_view value) {
  TRY(d, parse_duration(value));
  field<Path...>(o) = d;
  return {};
}

template <auto... Path>
Result<void> positive_duration(Options& o, std::string_view value) {
  TRY(d, parse_duration(value));
  if (d <= Duration{})
    return fail(Errc::usage, fmt::format("{} must be longer than 0", quoted(value)));
  field<Path...>(o) = d;
  return {};
}

template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

template <std::uint64_t Least, std::uint64_t Most, auto... Path>
Result<void> number(Options& o, std::string_view value) {
  TRY(n, parse_number(value, Least, Most));
  auto& to = field<Path...>(o);
  to = static_cast<typename ValueOf<std::remove_reference_t<decltype(to)>>::Type>(n);
  return {};
}

}  // namespace dlock::cli
