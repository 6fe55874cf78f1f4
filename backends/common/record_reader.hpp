// SPDX-License-Identifier: Apache-2.0
// Reads the records of several stores. A record is lines of words with one space between them.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include "core/lock_state.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock {

// Returns the layout of a record that a newer dlock wrote: the number after "dlock". nullopt: the
// record is not of a newer dlock.
inline std::optional<unsigned> newer_layout(std::string_view record) {
  constexpr std::string_view magic = "dlock";
  if (!record.starts_with(magic)) return std::nullopt;
  const auto layout = parse_number<unsigned>(next_part(record, ' ').substr(magic.size()));
  return layout && *layout > 1 ? layout : std::nullopt;
}

// Reads a record in which every field counts. A missing or wrong field makes the whole record bad,
// because the damaged part may mean a holder. After that, every read returns an empty or default
// value.
class RecordReader {
 public:
  explicit RecordReader(std::string_view text) : rest_(text) {}

  bool done() const noexcept { return rest_.empty(); }
  bool good() const noexcept { return good_; }

  // `end`: the character after the field, a space or the end of the line.
  std::string_view field(char end = ' ') noexcept {
    std::size_t n = 0;
    while (n < rest_.size() && rest_[n] != ' ' && rest_[n] != '\n') ++n;
    if (n == 0 || n == rest_.size() || rest_[n] != end) return fail();
    const std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n + 1);
    return w;
  }
  template <class T = std::uint64_t>
  T number(T most = std::numeric_limits<T>::max(), char end = ' ') noexcept {
    const auto value = parse_number<std::uint64_t>(field(end));
    if (!value || *value > static_cast<std::uint64_t>(most)) fail();
    return static_cast<T>(value.value_or(0));
  }
  Micros time() noexcept {  // "-": never
    if (!rest_.starts_with("- ")) return number<Micros>(never - 1);
    rest_.remove_prefix(2);
    return never;
  }
  Owner owner() noexcept {
    const auto o = Owner::parse(field());
    if (!o) fail();
    return o.value_or(Owner{});
  }
  Mode mode() noexcept {
    const auto m = parse_mode(field());
    if (!m) fail();
    return m.value_or(Mode::exclusive);
  }
  std::string_view who() noexcept {  // the last field of a line; "-": nothing
    const std::string_view w = field('\n');
    return w == "-" ? std::string_view{} : w;
  }

 private:
  std::string_view fail() noexcept {
    good_ = false;
    rest_ = {};
    return {};
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace dlock
