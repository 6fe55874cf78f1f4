// SPDX-License-Identifier: Apache-2.0
// Commands of operators, what people see of a lock, and the note of a start (--once-per).
#include <fmt/format.h>
#include <algorithm>
#include <set>
#include "core/key.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "etcd/queue/queue_backend.hpp"

namespace dlock::etcd {
namespace {

// a note stays this much longer than necessary, in case somebody sets the clocks of the members
constexpr Duration note_slack = std::chrono::seconds{60};

// Errc::usage: dlock did not write the note, so nobody knows when a job was last started.
Result<std::optional<RunStart>> parse_start(const KeyValues& found) {
  if (found.empty()) return std::nullopt;
  std::string_view text = found.front().value;
  const auto at = parse_number<std::int64_t>(next_part(text, ' '));
  const auto until = parse_number<std::int64_t>(text);
  if (at && until) return RunStart{*at, *until};
  return fail(Errc::usage, "key {} is no note of a start: delete it", dlock::quoted(found[0].key));
}

// The record of the last run: `TOKEN KEY LASTRUN`.
struct Last {
  std::optional<LastRun> run;
  std::string key;
};
Last parse_last(const KeyValues& found) {
  if (found.empty()) return {};
  std::string_view text = found.front().value;
  (void)next_part(text, ' ');
  const std::string_view key = next_part(text, ' ');
  return {LastRun::parse(text, ' '), key == "-" ? "" : percent_decode(key).value_or("")};
}

}  // namespace

// ---- for operators -----------------------------------------------------------------------------

// The token (the create revision) names the grant, so a late removal never ends a later grant.
Result<Released> QueueBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  if (token == FencingToken{0}) return Released::was_not_held;
  const Deadline until = client_.usual_deadline();
  TRY(all, read("release", key, until));
  bool removed = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!holds(all, i) || (token && all[i].token() != *token)) continue;
    TRY(gone, client_.txn("release",
                          transaction({created(all[i].kv.key, all[i].kv.created)},
                                      {remove(all[i].kv.key)}, {}),
                          until));
    removed |= gone.succeeded || gone.unclear;
  }
  return removed ? Released::yes : Released::was_not_held;
}

Result<Released> QueueBackend::revoke(const Key& key) {
  const Deadline until = client_.usual_deadline();
  TRY(all, read("revoke", key, until));
  bool any = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const KeyValue& kv = all[i].kv;
    // a holder of another program would not notice the mark
    if (!holds(all, i) || !all[i].record) continue;
    const auto mark = [&](const KeyValues& now) -> Result<std::optional<Parts>> {
      auto record = now.empty() ? std::nullopt : Record::parse(now.front().value);
      if (!record || record->revoked) return std::nullopt;
      record->revoked = true;
      return Parts{put_value(kv.key, record->text())};
    };
    TRY(marked, change("revoke", created(kv.key, kv.created), kv.key, until, mark));
    any |= marked;
  }
  return any ? Released::yes : Released::was_not_held;
}

// ---- reading -----------------------------------------------------------------------------------

Result<Validity> QueueBackend::check(const Key& key, const GrantId& id) {
  const Deadline until = client_.usual_deadline();
  TRY(all, read("check", key, until));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto* token = std::get_if<FencingToken>(&id);
    const bool meant = token ? all[i].token() == *token : all[i].name == std::get<Owner>(id).hex();
    if (!meant || !holds(all, i)) continue;
    if (all[i].lock_delay() <= Duration{}) return Validity::valid;
    TRY(left, rest(all[i].kv.lease, all[i].lock_delay(), until));
    return left > Duration{} ? Validity::valid : Validity::stale;
  }
  return Validity::stale;
}

Result<std::optional<KeyView>> QueueBackend::inspect(const Key& key) {
  auto view = inspect_name(name_of(key));
  if (view && *view) (*view)->key = key.text();
  return view;
}

Result<std::optional<KeyView>> QueueBackend::inspect_name(const std::string& name) {
  const Deadline until = client_.usual_deadline();
  const std::string below = places(name);
  Parts wanted = {list(below)};
  if (traits_.native) {
    wanted.push_back(get(last_key(name)));
    wanted.push_back(get(start_key(name)));
  }
  TRY(answer, client_.read("inspect", std::move(wanted), until));
  TRY(all, contenders_of(answer.range(0), below));
  const Last last = parse_last(answer.range(1));
  const auto start = parse_start(answer.range(2)).value_or(std::nullopt);
  if (all.empty() && !last.run && !start) return std::optional<KeyView>{};
  KeyView view;
  view.key = last.key;
  view.last_run = last.run;
  if (last.run) view.fence = last.run->token;
  const std::int64_t now = client_.store_now();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Contender& c = all[i];
    if (c.record && !c.record->key.empty()) view.key = c.record->key;
    HolderView h = view_of(c, now);
    if (!holds(all, i)) {
      view.waiters.push_back({h.id, h.mode, h.who});
      continue;
    }
    if (!c.record)
      view.notes.push_back(fmt::format("{} belongs to another program", printable(c.kv.key)));
    TRY(left, rest(c.kv.lease, c.lock_delay(), until));
    // a key of another program may have no lease, and then it never ends
    h.vanished = c.kv.lease != 0 && left <= Duration{};
    if (c.kv.lease != 0) h.remaining = h.vanished ? left + c.lock_delay() : left;
    view.fence = std::max(view.fence, h.token);
    view.holders.push_back(std::move(h));
  }
  ended_last(view);
  if (start && start->until > now) view.noted_start = start->at;
  if (view.key.empty()) {
    const auto known = traits_.native ? key_from_store_name(name) : Key::parse(name);
    view.key = known ? known->text() : name;
  }
  return std::optional{std::move(view)};
}

Result<std::vector<std::string>> QueueBackend::names() {
  const std::string& root = client_.options().root;
  TRY_VOID(can_list(root));
  std::vector<std::string> prefixes = {traits_.native ? root + "lock/" : root};
  if (traits_.native) prefixes.insert(prefixes.end(), {last_key(""), start_key("")});
  Parts wanted;
  for (const std::string& prefix : prefixes) wanted.push_back(list_names(prefix));
  TRY(found, client_.read("list", std::move(wanted), client_.usual_deadline()));
  std::set<std::string> names;
  for (std::size_t i = 0; i < prefixes.size(); ++i)
    for (const KeyValue& kv : found.range(i)) {
      std::string name = kv.key.substr(std::min(kv.key.size(), prefixes[i].size()));
      // a contender's key is the lock's name, a slash, and the contender's own part
      if (i == 0) name.erase(name.find('/') == name.npos ? 0 : name.rfind('/'));
      if (!name.empty()) names.insert(std::move(name));
    }
  return std::vector<std::string>(names.begin(), names.end());
}

// ---- --once-per --------------------------------------------------------------------------------

Result<RunStarts> QueueBackend::starts(const Key& key) {
  if (!traits_.starts) return fail(cannot("--once-per"));
  TRY(answer, client_.read("look", {get(start_key(name_of(key)))}, client_.usual_deadline()));
  TRY(noted, parse_start(answer.range(0)));
  RunStarts s{client_.store_now(), noted};
  if (s.last && s.last->until <= s.now) s.last.reset();
  return s;
}

// Writes the note only if the grant is valid and the note still has the revision that was read. So
// a late or repeated request changes nothing. The note has its own lease, which is never renewed
// and ends when the note is no longer needed.
Result<UpdateResult> QueueBackend::note_start(const Lease& lease, const RunStartUpdate& wanted) {
  if (!traits_.starts) return fail(cannot("--once-per"));
  const Deadline until = client_.usual_deadline();
  const std::string key = start_key(name_of(lease.key));
  TRY(h, held(lease, "note the start", until));
  if (!h) return UpdateResult::not_held;
  bool other = false;
  const auto then = [&](const KeyValues& found) -> Result<std::optional<Parts>> {
    TRY(noted, parse_start(found));
    const std::int64_t now = client_.store_now();
    other = !wanted.fits(noted, now);
    if (other || noted == wanted.is) return std::nullopt;
    if (!wanted.is) return Parts{remove(key)};
    const Duration needed{std::max<std::int64_t>(0, wanted.is->until - now)};
    TRY(keeper, client_.grant("note the start", needed + note_slack, until));
    return Parts{put(key, fmt::format("{} {}", wanted.is->at, wanted.is->until), keeper.id)};
  };
  TRY(done, change("note the start", created(h->key, revision(*h)), key, until, then));
  if (!done) return UpdateResult::not_held;
  return other ? UpdateResult::other_start : UpdateResult::yes;
}

Result<void> QueueBackend::erase(const Key& key) {
  const std::string name = name_of(key);
  Parts then = {remove_below(places(name))};
  if (traits_.native) {
    then.push_back(remove(last_key(name)));
    then.push_back(remove(start_key(name)));
  }
  TRY_VOID(client_.txn("remove", transaction({}, std::move(then), {}), client_.usual_deadline()));
  return {};
}

}  // namespace dlock::etcd
