// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include "common/exchange.hpp"
#include "core/error.hpp"

namespace dlock::mysql {

using ServerError = ServerErrorRow<unsigned>;  // a number of the server or of the client library

inline constexpr unsigned mysql_lock_nowait = 3572;  // ER_LOCK_NOWAIT; not in MariaDB's headers

// A number that is not listed becomes Remedy::none and Errc::protocol: the outcome is unknown, and
// a retry may help. `text`: the server's message. If an option of the server prevents a statement,
// the message names that option.
ServerError classify(unsigned number, std::string_view text = {}) noexcept;

// "<what> at <where>: error <number>: <text, made printable and short> (<advice>)"
Error as_error(std::string_view what, std::string_view where, unsigned number,
               std::string_view text);
// For a failed login: shows only the first sentence of the server's text, or none of the text if
// that sentence contains the password.
Error as_login_error(std::string_view what, std::string_view where, unsigned number,
                     std::string_view text, std::string_view password);

}  // namespace dlock::mysql
