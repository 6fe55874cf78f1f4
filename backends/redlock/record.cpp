// SPDX-License-Identifier: Apache-2.0
#include "redlock/record.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include "core/number.hpp"
#include "core/text.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redlock {
namespace {

constexpr std::string_view record_prefix = "dlock:redlock:";
constexpr std::string_view wake_prefix = "dlock:redlock-wake:";
constexpr char mark = '?';

// Escapes characters that are separators for dlock or in the record.
std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : lower(name))  // host names are case-insensitive
    if (is_letter(c) || is_digit(c) || std::string_view{".-_:[]"}.find(c) != name.npos) out += c;
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

Names::Names(std::string lock_name)
    : lock(std::move(lock_name)),
      record(std::string{record_prefix} + lock),
      wake(std::string{wake_prefix} + lock) {}
std::optional<std::string> Names::lock_of(std::string_view record) {
  if (!record.starts_with(record_prefix)) return std::nullopt;
  return std::string{record.substr(record_prefix.size())};
}
std::string Names::records_below(std::string_view prefix) {
  return fmt::format("{}{}*", record_prefix, redis::glob_escape(prefix));
}

std::vector<std::string> master_names(const redis::Options& options) {
  std::vector<std::string> names;
  for (const auto& at : options.servers) names.push_back(escaped(at.text()));
  return names;
}

std::string list_text(const redis::Options& options) {
  auto names = master_names(options);
  std::ranges::sort(names);
  return fmt::format("{}/{}", fmt::join(names, ","), options.database);
}

KnownList KnownList::parse(std::string_view recorded) {
  const bool marked = recorded.starts_with(mark);
  return {std::string{recorded.substr(marked)}, marked};
}

std::vector<std::string> KnownList::masters() const {
  std::vector<std::string> out;
  std::string_view names = std::string_view{text}.substr(0, text.rfind('/'));
  while (!names.empty()) out.emplace_back(next_part(names, ','));
  return out;
}

bool is_revoked(std::string_view meta) noexcept {
  while (!meta.empty())
    if (next_part(meta, '&') == stop_mark.substr(1)) return true;
  return false;
}

std::optional<LastRun> last_run(std::string_view meta) {
  while (!meta.empty()) {
    std::string_view item = next_part(meta, '&');
    if (next_part(item, '=') != "last") continue;
    const auto text = percent_decode(item);
    return text ? LastRun::parse(*text, ',') : std::nullopt;
  }
  return std::nullopt;
}

std::optional<NodeState> parse_state(const Reply& answer) {
  const auto now = answer.number_at(1);
  if (!now || answer.items.empty() || !answer.items.back().is(Reply::Type::array))
    return std::nullopt;
  const Reply& r = answer.items.back();
  const auto pttl = r.number_at(2);
  if (r.items.size() != 9 || !pttl || r.text_at(0).empty()) return std::nullopt;
  NodeState s;
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

Leader leader_of(const NodeStates& states, std::size_t majority) {
  // votes by type and value
  std::map<std::pair<std::string, std::string>, std::vector<const NodeState*>> locks;
  for (const auto& s : states)
    if (s && s->held()) locks[{s->type, s->value}].push_back(&*s);
  Leader best;
  for (const auto& [lock, by] : locks) {
    if (by.size() <= best.votes) continue;
    best = {by.size(), lock.second, {}, false};
    // Use the record with the highest token, because a record that is not confirmed has token 0.
    const auto newest = std::ranges::max_element(by, {}, [](const NodeState* s) {
      return std::pair{s->ours(), s->token};
    });
    HolderView& h = best.holder;
    best.ours = (*newest)->ours();
    if (best.ours) {
      h.id = (*newest)->owner.substr(0, 8);
      h.token = (*newest)->token;
      h.revoked = std::ranges::any_of(by, [](const NodeState* s) { return is_revoked(s->meta); });
      h.who = Identity::decode((*newest)->meta);
      h.granted_at = time_of_grant((*newest)->since, (*newest)->now);
    } else if (lock.first == "string" && lock.second.size() >= 16) {
      h.id = lock.second.substr(0, 8);
    }
    std::vector<Duration> left;
    for (const NodeState* s : by) left.push_back(s->left.value_or(Duration::max()));
    std::sort(left.rbegin(), left.rend());
    const Duration last = left[std::min(majority, left.size()) - 1];
    if (last != Duration::max()) h.remaining = last;
  }
  return best;
}

}  // namespace dlock::redlock
