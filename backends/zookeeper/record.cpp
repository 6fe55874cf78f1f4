// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/record.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <charconv>

namespace dlock::zookeeper {
namespace {

std::string_view word(std::string_view& rest) {
  const std::string_view head = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(head.size() + 1, rest.size()));
  return head;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string or_dash(const std::optional<unsigned>& n) { return n ? fmt::format_int(*n).str() : "-"; }

}  // namespace

Record Record::of(const Request& r) {
  return {r.owner.hex().substr(0, 8), r.ttl, r.mode == Mode::permit ? std::optional{r.limit} : std::nullopt, std::nullopt,
          r.identity};
}

std::string Record::text() const {
  return fmt::format("dlock1 {} {} {} {} {}", id, ttl.count(), or_dash(limit), or_dash(slot), who.encode());
}

std::optional<Record> Record::parse(std::string_view text) {
  if (word(text) != "dlock1") return std::nullopt;
  Record r;
  r.id = word(text);
  const auto ttl = number<std::int64_t>(word(text));
  if (r.id.empty() || !ttl) return std::nullopt;
  r.ttl = Duration{*ttl};
  r.limit = number<unsigned>(word(text));
  r.slot = number<unsigned>(word(text));
  r.who = Identity::decode(text);
  return r;
}

}  // namespace dlock::zookeeper
