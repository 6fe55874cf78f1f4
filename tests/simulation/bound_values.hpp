// SPDX-License-Identifier: Apache-2.0
// The values of a prepared statement as EXECUTE has them.
#pragma once
#include <fmt/format.h>
#include <mysql.h>
#include <cstdint>
#include <string>

namespace dlock::simulation {

inline std::string in_sql(const MYSQL_BIND& b) {
  if (b.buffer_type == MYSQL_TYPE_LONGLONG && b.is_unsigned != 0)
    return std::to_string(*static_cast<const std::uint64_t*>(b.buffer));
  if (b.buffer_type == MYSQL_TYPE_LONGLONG)
    return std::to_string(*static_cast<const std::int64_t*>(b.buffer));
  std::string out = "x'";
  for (unsigned long i = 0; i < b.buffer_length; ++i)
    out += fmt::format("{:02x}", static_cast<const unsigned char*>(b.buffer)[i]);
  return out + "'";
}

// What the protocol does with a prepared statement, in SQL.
struct PreparedStatement {
  std::string name, text, values{};

  std::string prepare() const { return fmt::format("PREPARE {} FROM \"{}\"", name, text); }
  std::string execute() const { return fmt::format("EXECUTE {} USING {}", name, values); }
  void bind(const MYSQL_BIND* bound) {
    values.clear();
    for (const char c : text)
      if (c == '?') values += (values.empty() ? "" : ",") + in_sql(*bound++);
  }
};

}  // namespace dlock::simulation
