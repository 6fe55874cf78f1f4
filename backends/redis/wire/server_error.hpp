// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "common/exchange.hpp"
#include "core/error.hpp"

namespace dlock::redis {

using dlock::Remedy;

struct ServerError {
  std::string_view word;  // "READONLY"; empty: unknown
  Remedy remedy;
  Errc code;
  std::string_view advice;  // for people; may be empty
};

// `text` as the server sent it, without the leading '-'. Errors raised inside a script are wrapped
// differently by each version of Redis (5 and 6: `ERR Error running script (...): ... -READONLY
// ...`, 7: `READONLY ... script: ...`): the known word is found in all of them.
ServerError classify(std::string_view text) noexcept;

// "<what> at <where>: <server's text, made printable and short> (<advice>)"
Error as_error(std::string_view what, std::string_view where, std::string_view text);
// Of an answer to a login, which may repeat our password, also a part of it: only the first
// sentence is judged and shown, or the word before it, if the sentence has the password.
Error as_login_error(std::string_view what, std::string_view where, std::string_view text,
                     std::string_view password);

}  // namespace dlock::redis
