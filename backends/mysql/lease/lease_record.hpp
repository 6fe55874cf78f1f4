// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <string>
#include <string_view>
#include "common/holders.hpp"
#include "mysql/client/connection.hpp"

namespace dlock::mysql {

using dlock::decode, dlock::encode, dlock::Holders;

// The record of a grant as an SQL expression, for a statement that computes `now` itself, which is
// an expression, too, and the token; with `?` for the values of grant_values(). Of the holder's
// times only the length of its lease is used.
std::string grant_in_sql(std::string_view now);
std::array<Value, 4> grant_values(std::string_view key, const LockState::Holder&);

}  // namespace dlock::mysql
