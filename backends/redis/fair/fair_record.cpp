// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_record.hpp"
#include <algorithm>
#include "common/record_reader.hpp"
#include "core/key_view.hpp"
#include "core/number.hpp"

namespace dlock::redis {
namespace {

std::string_view field(std::string_view& rest) noexcept { return take_word(rest, '|'); }

}  // namespace

std::optional<HolderRecord> parse_holder(std::string_view record) {
  const auto token = parse_number<std::uint64_t>(field(record));
  const std::string_view id = field(record);
  const auto deadline = parse_number<std::uint64_t>(field(record));
  const auto since = parse_number<std::uint64_t>(field(record));
  const auto mode = parse_mode(field(record));
  const auto slot = parse_number<std::uint64_t>(field(record));
  const auto delay = parse_number<std::uint64_t>(field(record));
  const auto granted = parse_number<std::uint64_t>(field(record));
  if (!mode || !token || !slot || !since || !deadline || !delay || !granted) return std::nullopt;
  HolderRecord h;
  h.id = id;
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
  v.id = h.id;
  if (!v.ended()) v.held = Duration{std::max<Micros>(0, now - h.granted)};
  return v;
}

std::optional<WaiterRecord> parse_waiter(std::string_view record) {
  const std::string_view id = field(record);
  const auto mode = parse_mode(field(record));
  const auto limit = parse_number<std::uint64_t>(field(record));
  if (!mode || !limit) return std::nullopt;
  WaiterRecord w;
  w.id = id;
  w.mode = *mode;
  w.limit = static_cast<unsigned>(*limit);
  w.meta = record;
  return w;
}

}  // namespace dlock::redis
