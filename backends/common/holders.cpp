// SPDX-License-Identifier: Apache-2.0
#include "common/holders.hpp"
#include <fmt/format.h>
#include <iterator>
#include "common/record_reader.hpp"
#include "core/text.hpp"

namespace dlock {

std::string encode(const Holders& holders) {
  std::string out = fmt::format("{}{}\n", holders_magic, percent_encode(holders.key));
  for (const auto& h : holders.list) {
    const auto granted = holders.granted.find(h.owner);
    fmt::format_to(std::back_inserter(out), "H {} {} {} {} {} {} {} {} {} {}\n", h.owner.hex(),
                   static_cast<char>(h.mode), h.ticket, h.token, h.slot,
                   granted == holders.granted.end() ? h.since : granted->second, h.since,
                   h.deadline, h.delay, h.meta.empty() ? "-" : h.meta);
  }
  return out;
}

std::optional<Holders> decode(std::string_view text) {
  Holders out;
  if (text.empty()) return out;
  const auto end = text.find('\n');
  if (!text.starts_with(holders_magic) || end == text.npos) return std::nullopt;
  auto key = percent_decode(text.substr(holders_magic.size(), end - holders_magic.size()));
  if (!key) return std::nullopt;
  out.key = std::move(*key);
  RecordReader in{text.substr(end + 1)};
  while (in.good() && !in.done()) {
    if (in.word() != "H") return std::nullopt;
    LockState::Holder h;
    h.owner = in.owner();
    h.mode = in.mode();
    h.ticket = in.number();
    h.token = in.number();
    h.slot = in.number<unsigned>();
    const auto granted = in.number<Micros>();
    h.since = in.number<Micros>();
    h.deadline = in.number<Micros>();
    h.delay = in.number<Micros>();
    h.meta = in.who();
    // An expired grant of the same owner may stand beside its new one; the new one comes later and
    // counts.
    out.granted.insert_or_assign(h.owner, granted);
    out.list.push_back(std::move(h));
  }
  return in.good() ? std::optional{std::move(out)} : std::nullopt;
}

}  // namespace dlock
