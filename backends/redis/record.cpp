// SPDX-License-Identifier: Apache-2.0
#include "redis/record.hpp"
#include <algorithm>
#include <charconv>
#include "core/lock_view.hpp"

namespace dlock::redis {
namespace {

// Takes what stands before the next '|'.
std::string_view field(std::string_view& rest) noexcept {
  const std::string_view head = rest.substr(0, rest.find('|'));
  rest.remove_prefix(std::min(head.size() + 1, rest.size()));
  return head;
}

}  // namespace

std::optional<Mode> parse_mode(std::string_view letter) noexcept {
  if (letter.size() != 1 || std::string_view{"XSP"}.find(letter.front()) == letter.npos) return std::nullopt;
  return static_cast<Mode>(letter.front());
}

std::optional<std::uint64_t> parse_unsigned(std::string_view digits) noexcept {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<HolderRecord> parse_holder(std::string_view record) {
  const auto mode = parse_mode(field(record));
  const auto token = parse_unsigned(field(record));
  const auto slot = parse_unsigned(field(record));
  const auto since = parse_unsigned(field(record));
  const auto deadline = parse_unsigned(field(record));
  const auto delay = parse_unsigned(field(record));
  const auto granted = parse_unsigned(field(record));
  if (!mode || !token || !slot || !since || !deadline || !delay || !granted) return std::nullopt;
  HolderRecord h;
  h.mode = *mode;
  h.token = *token;
  h.slot = static_cast<unsigned>(*slot);
  h.since = static_cast<Micros>(*since);
  h.deadline = static_cast<Micros>(*deadline);
  h.delay = static_cast<Micros>(*delay);
  h.granted = static_cast<Micros>(*granted);
  h.meta = record;
  return h;
}

HolderView view_of(const HolderRecord& h, Micros now) {
  HolderView v = view(h, now);
  v.held = Duration{std::max<Micros>(0, now - h.granted)};
  return v;
}

std::optional<LockState::Waiter> parse_waiter(std::string_view record) {
  const auto mode = parse_mode(field(record));
  const auto limit = parse_unsigned(field(record));
  if (!mode || !limit) return std::nullopt;
  LockState::Waiter w;
  w.mode = *mode;
  w.limit = static_cast<unsigned>(*limit);
  w.meta = record;
  return w;
}

}  // namespace dlock::redis
