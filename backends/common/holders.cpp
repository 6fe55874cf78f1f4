// SPDX-License-Identifier: Apache-2.0
#include "common/holders.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include "common/record_reader.hpp"
#include "core/text.hpp"

namespace dlock {

Micros Holders::granted_at(const LockState::Holder& h) const {
  const auto found = granted.find(h.owner);
  return found == granted.end() ? h.since : found->second;
}

Holders Holders::changed_to(const LockState& s, const Owner* me, Micros skew) const {
  Holders out{key, s.holders, {}};
  for (auto& h : out.list) {
    if (me && h.owner != *me) h.deadline -= skew;
    out.granted[h.owner] = granted_at(h);
  }
  return out;
}

std::optional<EndedRun> run_of(const Holders& holders, const Owner& me, std::string_view ended) {
  constexpr std::size_t longest_who = 4000;  // so that it fits into the column last_run
  const auto h = std::find_if(holders.list.rbegin(), holders.list.rend(),
                              [&](const auto& one) { return one.owner == me; });
  if (ended.empty() || h == holders.list.rend()) return std::nullopt;
  return EndedRun{h->token, holders.granted_at(*h), ended, h->meta.substr(0, longest_who)};
}

std::string encode(const Holders& holders) {
  std::string out = fmt::format("{}{}\n", holders_magic, percent_encode(holders.key));
  for (const auto& h : holders.list) {
    fmt::format_to(std::back_inserter(out), "H {} {} {} {} {} {} {} {} {} {}\n", h.owner.hex(),
                   static_cast<char>(h.mode), h.ticket, h.token, h.slot, holders.granted_at(h),
                   h.since, h.deadline, h.delay, h.meta.empty() ? "-" : h.meta);
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
    if (in.field() != "H") return std::nullopt;
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
    // An expired grant of an owner may precede a new grant of the same owner; the later line
    // counts.
    out.granted.insert_or_assign(h.owner, granted);
    out.list.push_back(std::move(h));
  }
  return in.good() ? std::optional{std::move(out)} : std::nullopt;
}

}  // namespace dlock
