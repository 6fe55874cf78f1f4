// SPDX-License-Identifier: Apache-2.0
#include "redlock/seen.hpp"
#include <algorithm>
#include <map>
#include "common/record_reader.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "redis/fair/fair_record.hpp"

namespace dlock::redlock {

bool asked_to_stop(std::string_view meta) noexcept {
  while (!meta.empty())
    if (take_word(meta, '&') == stop_mark.substr(1)) return true;
  return false;
}

std::optional<LastRun> last_run(std::string_view meta) {
  constexpr std::string_view name = "last=";
  while (!meta.empty()) {
    const std::string_view item = take_word(meta, '&');
    if (!item.starts_with(name)) continue;
    const auto text = percent_decode(item.substr(name.size()));
    return text ? LastRun::parse(*text, ',') : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Seen> parse_seen(const Reply& answer) {
  const auto now = answer.number_at(1);
  if (!now || answer.items.empty() || !answer.items.back().is(Reply::Type::array))
    return std::nullopt;
  const Reply& r = answer.items.back();
  const auto pttl = r.number_at(2);
  if (r.items.size() != 9 || !pttl || r.text_at(0).empty()) return std::nullopt;
  Seen s;
  s.now = *now;
  s.type = r.text_at(0);
  s.value = r.text_at(1);
  if (*pttl >= 0) s.left = std::chrono::milliseconds{*pttl};
  s.newest = parse_number<std::uint64_t>(r.text_at(3)).value_or(0);
  s.owner = r.text_at(4);
  s.token = parse_number<std::uint64_t>(r.text_at(5)).value_or(0);
  s.since = r.number_at(6).value_or(0);
  s.meta = r.text_at(7);
  s.list = r.text_at(8);
  return s;
}

Leader leader_of(const std::vector<std::optional<Seen>>& seen, std::size_t majority) {
  // by type and value
  std::map<std::pair<std::string, std::string>, std::vector<const Seen*>> locks;
  for (const auto& s : seen)
    if (s && s->held()) locks[{s->type, s->value}].push_back(&*s);
  Leader best;
  for (const auto& [lock, by] : locks) {
    if (by.size() <= best.votes) continue;
    best = {by.size(), lock.second, {}, false};
    // Of several records the confirmed one has the most information.
    const auto tells = std::max_element(by.begin(), by.end(), [](const Seen* a, const Seen* b) {
      return std::pair{a->ours(), a->token} < std::pair{b->ours(), b->token};
    });
    HolderView& h = best.holder;
    best.ours = (*tells)->ours();
    if (best.ours) {
      h.id = (*tells)->owner.substr(0, 8);
      h.token = (*tells)->token;
      h.revoked =
          std::any_of(by.begin(), by.end(), [](const Seen* s) { return asked_to_stop(s->meta); });
      h.who = Identity::decode((*tells)->meta);
      h.held = Duration{std::max<Micros>(0, (*tells)->now - (*tells)->since)};
    } else if (lock.first == "string" && lock.second.size() >= 16) {
      h.id = lock.second.substr(0, 8);
    }
    std::vector<Duration> left;
    for (const Seen* s : by) left.push_back(s->left.value_or(Duration::max()));
    std::sort(left.rbegin(), left.rend());
    const Duration last = left[std::min(majority, left.size()) - 1];
    if (last != Duration::max()) h.remaining = last;
  }
  return best;
}

}  // namespace dlock::redlock
