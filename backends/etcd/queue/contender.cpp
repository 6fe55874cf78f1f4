// SPDX-License-Identifier: Apache-2.0
#include "etcd/queue/contender.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/key.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock::etcd {
namespace {

std::string or_dash(const std::optional<unsigned>& n) {
  return n ? std::to_string(*n) : std::string{"-"};
}

bool exclude(Mode a, Mode b) noexcept { return a == Mode::exclusive || b == Mode::exclusive; }

}  // namespace

Record Record::of(const Request& r) {
  Record made;
  made.mode = r.mode;
  if (r.mode == Mode::permit) made.limit = r.limit;
  made.ttl = r.ttl;
  made.lock_delay = r.lock_delay;
  if (!key_from_store_name(store_name(r.key))) made.key = r.key.text();
  made.who = r.identity;
  made.who.limit = 0;  // the record has its own field for the limit
  return made;
}

std::string Record::text() const {
  return fmt::format("dlock1 {} {} {} {} {} {} {} {} {}", static_cast<char>(mode), or_dash(limit),
                     or_dash(slot), ttl.count(), lock_delay.count(), granted, revoked ? "R" : "-",
                     key.empty() ? "-" : percent_encode(key), who.encode());
}

std::optional<Record> Record::parse(std::string_view text) {
  const auto field = [&] { return next_part(text, ' '); };
  if (field() != "dlock1") return std::nullopt;
  Record r;
  const auto mode = parse_mode(field());
  r.limit = parse_number<unsigned>(field());
  r.slot = parse_number<unsigned>(field());
  const auto ttl = parse_number<std::int64_t>(field()), delay = parse_number<std::int64_t>(field()),
             granted = parse_number<std::int64_t>(field());
  const std::string_view revoked = field(), key = field();
  if (!mode || !ttl || !delay || !granted || key.empty()) return std::nullopt;
  r.mode = *mode;
  r.ttl = Duration{*ttl};
  r.lock_delay = Duration{*delay};
  r.granted = *granted;
  r.revoked = revoked == "R";
  if (key != "-") r.key = percent_decode(key).value_or("");
  r.who = Identity::decode(text);
  return r;
}

Contenders contenders(const KeyValues& found, std::string_view prefix) {
  Contenders all;
  for (const KeyValue& kv : found) {
    if (!kv.key.starts_with(prefix)) continue;
    std::string name = kv.key.substr(prefix.size());
    if (name.find('/') != name.npos) continue;
    all.push_back({kv, std::move(name), Record::parse(kv.value)});
  }
  std::ranges::sort(all, {}, [](const Contender& c) { return c.kv.created; });
  return all;
}

// Several readers, or several permits, may hold the lock together. For a permit, every contender
// before it counts toward the limit.
bool may_run(const Contenders& all, std::size_t at, unsigned limit) {
  const Mode mode = all[at].mode();
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(at);
  if (std::any_of(all.begin(), end, [&](const Contender& c) { return exclude(c.mode(), mode); }))
    return false;
  return mode != Mode::permit || at < limit;
}

bool holds(const Contenders& all, std::size_t at) {
  return all[at].mode() == Mode::permit ? all[at].has_slot() : may_run(all, at, 0);
}

Verdict decide(const Contenders& before, Mode mode, unsigned limit) {
  using What = Verdict::What;
  const auto last = std::find_if(before.rbegin(), before.rend(),
                                 [&](const Contender& c) { return exclude(c.mode(), mode); });
  // Watch only the last contender that excludes us, so that a release wakes only one waiter.
  if (last != before.rend()) return {What::wait_deletion, last->kv.key};
  if (mode != Mode::permit || before.size() < limit) return {What::run};
  const auto waiting = std::find_if(before.rbegin(), before.rend(), [](const Contender& c) {
    return c.mode() == Mode::permit && !c.has_slot();
  });
  if (waiting != before.rend()) return {What::wait_turn, waiting->kv.key};
  return {What::wait_room};
}

unsigned lowest_free_slot(const Contenders& all) {
  for (unsigned slot = 0;; ++slot)
    if (std::ranges::none_of(
            all, [&](const Contender& c) { return c.has_slot() && *c.record->slot == slot; }))
      return slot;
}

HolderView view_of(const Contender& c, std::int64_t now) {
  HolderView h;
  h.id = c.name.substr(0, 8);
  h.mode = c.mode();
  h.token = c.token();
  if (!c.record) return h;
  h.slot = c.record->slot.value_or(0);
  h.granted_at = time_of_grant(c.record->granted, now);
  h.revoked = c.record->revoked;
  h.who = c.record->who;
  h.who.limit = c.record->limit.value_or(0);
  return h;
}

}  // namespace dlock::etcd
