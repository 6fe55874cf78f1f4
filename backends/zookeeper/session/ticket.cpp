// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/ticket.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "common/record_reader.hpp"
#include "core/number.hpp"

namespace dlock::zookeeper {

std::string Ticket::text() const {
  std::string out = fmt::format("{:016x}", static_cast<std::uint64_t>(id));
  for (const char c : password) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  if (timeout > Duration{})
    out += fmt::format("-{}-{}", timeout / std::chrono::milliseconds{1},
                       lock_delay / std::chrono::milliseconds{1});
  return out;
}

std::optional<Ticket> Ticket::parse(std::string_view text) {
  Ticket t;
  std::string_view times = text.substr(std::min<std::size_t>(text.size(), 48));
  text = text.substr(0, 48);
  if (text.size() != 48) return std::nullopt;
  if (!times.empty()) {
    if (take_word(times, '-') != "") return std::nullopt;
    const auto timeout = parse_number<std::uint32_t>(take_word(times, '-'));
    const auto delay = parse_number<std::uint32_t>(times);
    if (!timeout || !delay || *delay >= *timeout) return std::nullopt;
    t.timeout = std::chrono::milliseconds{*timeout};
    t.lock_delay = std::chrono::milliseconds{*delay};
  }
  const auto id = parse_number<std::uint64_t>(text.substr(0, 16), 16);
  if (!id) return std::nullopt;
  for (std::size_t i = 16; i < 48; i += 2) {
    const auto byte = parse_number<unsigned char>(text.substr(i, 2), 16);
    if (!byte) return std::nullopt;
    t.password += static_cast<char>(*byte);
  }
  t.id = static_cast<std::int64_t>(*id);
  return t;
}

}  // namespace dlock::zookeeper
