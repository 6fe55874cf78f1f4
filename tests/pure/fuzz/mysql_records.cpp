// SPDX-License-Identifier: Apache-2.0
// The record of a MySQL lease, which other users of the table may write, and ~/.my.cnf.
#include "common/holders.hpp"
#include "mysql/client/my_cnf.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

void mysql_record(std::string_view text) {
  const auto holders = decode(text);
  if (!holders || text.empty()) return;
  const auto again = decode(encode(*holders));
  must(again.has_value(), "a record that dlock wrote cannot be read");
  must(again->list == holders->list && again->key == holders->key,
       "a record that dlock wrote is read as another one");
}

void my_cnf(std::string_view text) { (void)mysql::parse_client_defaults(text); }

const Added mysql_targets[] = {{"mysql_record", mysql_record}, {"my_cnf", my_cnf}};

}  // namespace
}  // namespace dlock::fuzz
