// SPDX-License-Identifier: Apache-2.0
// The texts of statements: patterns with {} in the places of the values.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlock::simulation::sql {

// The statements of a request, which has `;` between them.
std::vector<std::string> statements_in(std::string_view request);

// Removes `pattern` from the beginning of `text`; the literals for each {} are appended to
// `values`. {names} stands for any number of functions of named locks, with or without a comma
// before each, which are one value; {alive} for the condition that a row of dlock_wait is that of a
// living waiter.
using Values = std::vector<std::string>;
bool take(std::string_view& text, std::string_view pattern, Values& values);

inline constexpr std::string_view have = "IF(IS_USED_LOCK({})=CONNECTION_ID(),1,GET_LOCK({},0))",
                                  get = "GET_LOCK({},0)", release = "RELEASE_LOCK({})";

}  // namespace dlock::simulation::sql
