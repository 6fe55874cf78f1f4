// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_record.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/number.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {
namespace {

std::string_view field(std::string_view& rest) noexcept { return next_part(rest, '|'); }

// A lease lasts longer than requested if the server's clock was set back after the grant.
void note_clock(const LockState::Holder& h, Micros now, std::vector<std::string>& notes) {
  if (h.since <= now + 1'000'000) return;
  notes.push_back(
      fmt::format("the server's clock went back by at least {} since this grant: it ends that much "
                  "later, unless it is released",
                  format_duration(Duration{h.since - now})));
}

void note_cut(std::size_t shown, std::int64_t have, std::string_view of_what, KeyView& v) {
  if (static_cast<std::int64_t>(shown) < have)
    v.notes.push_back(fmt::format("{} of {} {} are shown", shown, have, of_what));
}

}  // namespace

FairKeys::FairKeys(std::string_view prefix, std::string name)
    : name_(std::move(name)), base_(fmt::format("{}{{{}}}:", prefix, name_)) {}

std::optional<std::string> FairKeys::name_in(std::string_view found, std::string_view prefix) {
  if (!found.starts_with(prefix)) return std::nullopt;
  found.remove_prefix(prefix.size());
  const std::size_t end = found.find("}:");
  if (!found.starts_with('{') || end == found.npos || end < 2) return std::nullopt;
  return std::string{found.substr(1, end - 1)};
}

std::string FairKeys::pattern(std::string_view prefix) { return glob_escape(prefix) + "{*}:*"; }

std::string FairKeys::key_text(const std::string& name, std::string_view fence_record) {
  if (const auto key = key_from_store_name(name)) return key->text();
  const std::size_t space = fence_record.find(' ');
  if (space == fence_record.npos) return name;
  return percent_decode(fence_record.substr(space + 1)).value_or(name);
}

std::optional<HolderRecord> parse_holder(std::string_view record) {
  bool good = true;
  const auto number = [&] {
    const auto n = parse_number<std::uint64_t>(field(record));
    good &= n.has_value();
    return n.value_or(0);
  };
  const auto time = [&] { return static_cast<Micros>(number()); };
  HolderRecord h;
  h.token = number();
  h.id = field(record);
  h.deadline = time();
  h.since = time();
  const auto mode = parse_mode(field(record));
  h.mode = mode.value_or(Mode::exclusive);
  h.slot = static_cast<unsigned>(number());
  h.delay = time();
  h.granted = time();
  h.meta = record;
  return good && mode ? std::optional{std::move(h)} : std::nullopt;
}

HolderView view_of(const HolderRecord& h, Micros now) {
  HolderView v = view(h, now);
  v.id = h.id;
  if (!v.ended()) v.granted_at = time_of_grant(h.granted, now);
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
  const auto revoked = parse_number<std::uint64_t>(next_part(revoke, '|')).value_or(0);
  const auto revoked_at = parse_number<std::int64_t>(next_part(revoke, '|')).value_or(0);
  for (std::size_t i = 0; i < holders.items.size(); ++i) {
    const auto h = parse_holder(holders.text_at(i));
    if (!h) continue;
    v.holders.push_back(view_of(*h, *now));
    v.holders.back().revoked = h->token <= revoked;
    note_clock(*h, *now, v.notes);
  }
  if (std::ranges::any_of(v.holders, &HolderView::revoked))
    v.notes.push_back(
        fmt::format("asked to stop by {}, {} ago", Identity::decode(revoke).text(),
                    format_duration(Duration{std::max<Micros>(0, *now - revoked_at)})));
  std::ranges::sort(v.holders, {}, &HolderView::token);
  ended_last(v);
  for (std::size_t i = 0; i < waiters.items.size(); ++i) {
    const auto w = parse_waiter(waiters.text_at(i));
    if (!w) continue;
    v.waiters.push_back(view(*w));
    v.waiters.back().id = w->id;
  }
  note_cut(v.holders.size(), *reply.number_at(2), "holders", v);
  note_cut(v.waiters.size(), *reply.number_at(4), "waiters", v);
  return std::optional{std::move(v)};
}

}  // namespace dlock::redis
