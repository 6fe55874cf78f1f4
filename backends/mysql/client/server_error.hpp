// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock::mysql {

// The remedy for an error number, of the server or of the client library.
enum class Remedy {
  // nothing was written: the same statement may succeed in a moment (deadlock, lock wait timeout)
  again,
  reconnect,  // the connection is gone; whether the statement was carried out is unknown
  elsewhere,  // this server does not write now; another node may, or this one in a while
  create,     // a table is missing
  never,      // an administrator has to change something first
};

struct ServerError {
  unsigned number;
  Remedy remedy;
  Errc code;
  std::string_view advice{};  // for people; may be empty
};

inline constexpr unsigned mysql_lock_nowait = 3572;  // MySQL's ER_LOCK_NOWAIT; MariaDB has none

// Unlisted numbers are Remedy::never, Errc::protocol: the outcome is unknown, and a retry may help.
ServerError classify(unsigned number) noexcept;

// "<what> at <where>: error <number>: <text, made printable and short> (<advice>)"
Error as_error(std::string_view what, std::string_view where, unsigned number,
               std::string_view text);
// Of a failed login: of what the server says only the first sentence is shown, and nothing if that
// has the password.
Error as_login_error(std::string_view what, std::string_view where, unsigned number,
                     std::string_view text, std::string_view password);

}  // namespace dlock::mysql
