// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "common/exchange.hpp"
#include "core/error.hpp"

namespace dlock::postgresql {

using ServerError = ServerErrorRow<std::string_view>;  // an SQLSTATE, or its class

// Returns the row of a known state. For other states it returns Remedy::none and Errc::protocol:
// the outcome is unknown, and a retry may help.
ServerError classify(std::string_view sqlstate) noexcept;

// "<what> at <where>: <text, made printable and short> (<advice>)"
Error as_error(std::string_view what, std::string_view where, std::string_view sqlstate,
               std::string_view text);
// Returns the error for a login that failed. The SQLSTATE is in the library's text.
Error as_login_error(std::string_view where, std::string_view text);

}  // namespace dlock::postgresql
