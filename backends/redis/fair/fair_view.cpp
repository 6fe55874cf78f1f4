// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_view.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "common/record_reader.hpp"
#include "core/duration.hpp"
#include "core/key_view.hpp"
#include "core/number.hpp"
#include "redis/fair/fair_record.hpp"

namespace dlock::redis {
namespace {

// A lease that lasts longer than requested: the clock of the server was set back since.
void note_clock(const LockState::Holder& h, Micros now, std::vector<std::string>& notes) {
  if (h.since <= now + 1'000'000) return;
  notes.push_back(
      fmt::format("the server's clock went back by at least {} since this grant: it ends that much "
                  "later, unless it is released",
                  format_duration(Duration{h.since - now})));
}

void note_cut(std::size_t shown, std::int64_t have, std::string_view of_what,
              std::vector<std::string>& notes) {
  if (static_cast<std::int64_t>(shown) < have)
    notes.push_back(fmt::format("{} of {} {} are shown", shown, have, of_what));
}

}  // namespace

Result<std::optional<KeyView>> view_of(const FairKeys& keys, const Reply& reply) {
  const auto now = reply.number_at(0);
  if (!now || reply.items.size() != 9 || !reply.number_at(2) || !reply.number_at(4))
    return fail(Errc::protocol, "inspect: malformed reply");
  const std::string_view fence = reply.text_at(1);
  const Reply& holders = reply.items[3];
  const Reply& waiters = reply.items[5];
  if (fence.empty() && holders.items.empty() && waiters.items.empty())
    return std::optional<KeyView>{};

  KeyView v;
  v.key = FairKeys::key_text(keys.name(), fence);
  v.fence = parse_number<std::uint64_t>(fence.substr(0, fence.find(' '))).value_or(0);
  v.last_run = LastRun::parse(reply.text_at(7), '|');
  v.noted_start = reply.number_at(8);
  std::string_view revoke = reply.text_at(6);
  const auto asked = parse_number<std::uint64_t>(take_word(revoke, '|')).value_or(0);
  const auto asked_at = parse_number<std::int64_t>(take_word(revoke, '|')).value_or(0);
  for (std::size_t i = 0; i < holders.items.size(); ++i) {
    const auto h = parse_holder(holders.text_at(i));
    if (!h) continue;
    v.holders.push_back(view_of(*h, *now));
    v.holders.back().revoked = h->token <= asked;
    note_clock(*h, *now, v.notes);
  }
  if (std::any_of(v.holders.begin(), v.holders.end(), [](const auto& h) { return h.revoked; }))
    v.notes.push_back(fmt::format("asked to stop by {}, {} ago", Identity::decode(revoke).text(),
                                  format_duration(Duration{std::max<Micros>(0, *now - asked_at)})));
  std::sort(v.holders.begin(), v.holders.end(),
            [](const HolderView& a, const HolderView& b) { return a.token < b.token; });
  ended_last(v);
  for (std::size_t i = 0; i < waiters.items.size(); ++i) {
    const auto w = parse_waiter(waiters.text_at(i));
    if (!w) continue;
    v.waiters.push_back(view(*w));
    v.waiters.back().id = w->id;
  }
  note_cut(v.holders.size(), *reply.number_at(2), "holders", v.notes);
  note_cut(v.waiters.size(), *reply.number_at(4), "waiters", v.notes);
  return std::optional{std::move(v)};
}

}  // namespace dlock::redis
