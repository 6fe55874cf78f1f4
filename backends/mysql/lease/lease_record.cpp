// SPDX-License-Identifier: Apache-2.0
#include "mysql/lease/lease_record.hpp"
#include <fmt/format.h>
#include "core/text.hpp"

namespace dlock::mysql {

std::string grant_in_sql(std::string_view now) {
  return fmt::format("CONCAT(?,{0},?,{0},' ',{0},' ',{0}+?,?)", now);
}
std::array<Value, 4> grant_values(std::string_view key, const LockState::Holder& h) {
  return {Bytes{fmt::format("{}{}\nH {} {} {} ", holders_magic, percent_encode(key), h.owner.hex(),
                            static_cast<char>(h.mode), h.ticket)},
          Bytes{fmt::format(" {} ", h.slot)}, h.deadline - h.since,
          Bytes{fmt::format(" {} {}\n", h.delay, h.meta.empty() ? "-" : h.meta)}};
}

}  // namespace dlock::mysql
