// SPDX-License-Identifier: Apache-2.0
#include "mysql/lease_record.hpp"
#include <fmt/format.h>
#include <charconv>
#include <iterator>
#include "core/key.hpp"
#include "mysql/connection.hpp"

namespace dlock::mysql {
namespace {

constexpr std::string_view magic = "dlock1 ";

class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}
  std::string_view word() noexcept {
    const auto space = rest_.find(' ');
    const std::string_view w = rest_.substr(0, space);
    rest_.remove_prefix(space == rest_.npos ? rest_.size() : space + 1);
    good_ &= !w.empty();
    return w;
  }
  template <class T>
  T number() noexcept {
    const std::string_view w = word();
    T value{};
    const auto [end, bad] = std::from_chars(w.data(), w.data() + w.size(), value);
    good_ &= bad == std::errc{} && end == w.data() + w.size();
    return value;
  }
  std::string_view rest() const noexcept { return rest_; }
  bool good() const noexcept { return good_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::optional<Mode> parse_mode(std::string_view letter) noexcept {
  if (letter.size() != 1 || std::string_view{"XSP"}.find(letter.front()) == letter.npos) return std::nullopt;
  return static_cast<Mode>(letter.front());
}

std::string encode(const Holders& holders) {
  std::string out = fmt::format("{}{}\n", magic, percent_encode(holders.key));
  for (const auto& h : holders.list) {
    const auto granted = holders.granted.find(h.owner);
    fmt::format_to(std::back_inserter(out), "H {} {} {} {} {} {} {} {} {} {}\n", h.owner.hex(), static_cast<char>(h.mode),
                   h.ticket, h.token, h.slot, granted == holders.granted.end() ? h.since : granted->second, h.since, h.deadline,
                   h.delay, h.meta.empty() ? "-" : h.meta);
  }
  return out;
}

std::string grant_in_sql(std::string_view key, const LockState::Holder& h, std::string_view token, std::string_view now) {
  return fmt::format(
      "CONCAT({},{},{},{},' ',{},' ',{}+{},{})",
      hex(fmt::format("{}{}\nH {} {} {} ", magic, percent_encode(key), h.owner.hex(), static_cast<char>(h.mode), h.ticket)),
      token, hex(fmt::format(" {} ", h.slot)), now, now, now, h.deadline - h.since,
      hex(fmt::format(" {} {}\n", h.delay, h.meta.empty() ? "-" : h.meta)));
}

std::optional<Holders> decode(std::string_view text) {
  Holders out;
  if (text.empty()) return out;
  if (!text.starts_with(magic)) return std::nullopt;
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (std::exchange(first, false)) {
      auto key = percent_decode(line.substr(magic.size()));
      if (!key) return std::nullopt;
      out.key = std::move(*key);
      continue;
    }
    Fields f{line};
    if (f.word() != "H") return std::nullopt;
    LockState::Holder h;
    const auto owner = Owner::parse(f.word());
    const auto mode = parse_mode(f.word());
    h.ticket = f.number<std::uint64_t>();
    h.token = f.number<FencingToken>();
    h.slot = f.number<unsigned>();
    const auto granted = f.number<Micros>();
    h.since = f.number<Micros>();
    h.deadline = f.number<Micros>();
    h.delay = f.number<Micros>();
    h.meta = f.rest() == "-" ? std::string_view{} : f.rest();
    if (!owner || !mode || !f.good() || h.delay < 0) return std::nullopt;
    h.owner = *owner;
    h.mode = *mode;
    // A lapsed grant of the same owner may stand beside its new one; the latter comes later and counts.
    out.granted.insert_or_assign(h.owner, granted);
    out.list.push_back(std::move(h));
  }
  return out;
}

}  // namespace dlock::mysql
