// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of mysql_prove.
#pragma once
#include <string_view>
#include "support/mariadb_server.hpp"
#include "support/prove.hpp"

namespace dlock::prove {

using namespace dlock::test;
using namespace std::chrono_literals;

inline Key key(std::string_view text) { return *Key::parse(text); }

// The parts.
void contended(MariadbServer&, unsigned n, long grants, double most_statements, double most_wakes);
void fifo(MariadbServer&, unsigned n, int rounds);
void crowd(unsigned n);
void gone(MariadbServer&);
void rates(bool full);

}  // namespace dlock::prove
