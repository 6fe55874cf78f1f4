// SPDX-License-Identifier: Apache-2.0
// What operators ask for, what people see, and the note of --once-per.
#include <fmt/format.h>
#include <algorithm>
#include <set>
#include "core/key.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "etcd/doctor.hpp"
#include "etcd/queue/queue_backend.hpp"

namespace dlock::etcd {
namespace {

constexpr unsigned most_changes = 8;
// by which a note outlives its end: the members' clocks may be set
constexpr Duration note_slack = std::chrono::seconds{60};

std::optional<Start> parse_start(const KeyValues& found) {
  if (found.empty()) return std::nullopt;
  std::string_view text = found.front().value;
  const auto at = parse_number<std::int64_t>(take_word(text, ' '));
  const auto until = parse_number<std::int64_t>(text);
  if (!at || !until) return std::nullopt;
  return Start{*at, *until};
}

// `TOKEN KEY LASTRUN`
struct Last {
  std::optional<LastRun> run;
  std::string key;
};
Last parse_last(const KeyValues& found) {
  if (found.empty()) return {};
  std::string_view text = found.front().value;
  (void)take_word(text, ' ');
  const std::string_view key = take_word(text, ' ');
  return {LastRun::parse(text, ' '), key == "-" ? "" : percent_decode(key).value_or("")};
}

}  // namespace

// ---- for operators -----------------------------------------------------------------------------

// The token names the grant: a late removal hits no later one.
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

Result<bool> QueueBackend::mark_revoked(const std::string& key, FencingToken token) {
  const Deadline until = client_.usual_deadline();
  const auto grant = created(key, static_cast<std::int64_t>(token));
  for (unsigned tries = 0; tries < most_changes; ++tries) {
    TRY(now, client_.txn("revoke", transaction({grant}, {get(key)}, {}), until));
    if (!now.succeeded || now.range(0).empty()) return false;
    auto record = Record::parse(now.range(0).front().value);
    if (!record) return false;  // of another program, which would not listen
    if (record->revoked) return true;
    record->revoked = true;
    TRY(marked, client_.txn("revoke",
                            transaction({grant, modified(key, now.range(0).front().modified)},
                                        {put_value(key, record->text())}, {}),
                            until));
    if (marked.succeeded) return true;
  }
  return fail(no_answer("revoke", where()));
}

Result<Released> QueueBackend::revoke(const Key& key) {
  TRY(all, read("revoke", key, client_.usual_deadline()));
  bool any = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!holds(all, i)) continue;
    TRY(marked, mark_revoked(all[i].kv.key, all[i].token()));
    any |= marked;
  }
  return any ? Released::yes : Released::was_not_held;
}

// ---- looking -----------------------------------------------------------------------------------

Result<bool> QueueBackend::over(const Contender& c, Deadline until) {
  if (!c.record || c.record->lock_delay <= Duration{}) return false;
  TRY(left, client_.time_left(c.kv.lease, until));
  return !left || *left <= c.record->lock_delay;
}

Result<Validity> QueueBackend::check(const Key& key, const GrantId& id) {
  const Deadline until = client_.usual_deadline();
  TRY(all, read("check", key, until));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto* token = std::get_if<FencingToken>(&id);
    const bool meant = token ? all[i].token() == *token : all[i].name == std::get<Owner>(id).hex();
    if (!meant || !holds(all, i)) continue;
    TRY(ended, over(all[i], until));
    return ended ? Validity::stale : Validity::valid;
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
  TRY(seen, client_.txn("inspect", transaction({}, std::move(wanted), {}), until));
  const Contenders all = contenders(seen.range(0), below);
  const Last last = parse_last(seen.range(1));
  const auto start = parse_start(seen.range(2));
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
    TRY(left, client_.time_left(c.kv.lease, until));
    const Duration delay = c.record ? c.record->lock_delay : Duration{};
    const Duration remaining = left.value_or(Duration{});
    h.vanished = remaining <= delay;
    // a lease of another program may be none at all, and then it has no end
    if (c.kv.lease != 0) h.remaining = h.vanished ? remaining : remaining - delay;
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
  Parts wanted = {list_names(traits_.native ? root + "lock/" : root)};
  if (traits_.native) {
    wanted.push_back(list_names(root + "last/"));
    wanted.push_back(list_names(root + "start/"));
  }
  TRY(found, client_.txn("list", transaction({}, std::move(wanted), {}), client_.usual_deadline()));
  std::set<std::string> names;
  for (std::size_t i = 0; i < 3; ++i)
    for (const KeyValue& kv : found.range(i)) {
      const std::string_view kind = !traits_.native ? ""
                                    : i == 0        ? "lock/"
                                    : i == 1        ? "last/"
                                                    : "start/";
      std::string name = kv.key.substr(std::min(kv.key.size(), root.size() + kind.size()));
      const std::size_t slash = name.rfind('/');  // before the contender's own part
      if (i == 0 && slash == name.npos) continue;
      if (i == 0) name.erase(slash);
      if (!name.empty()) names.insert(std::move(name));
    }
  return std::vector<std::string>(names.begin(), names.end());
}

// ---- --once-per --------------------------------------------------------------------------------

Result<Starts> QueueBackend::starts(const Key& key) {
  if (!traits_.starts) return fail(cannot("--once-per"));
  TRY(seen, client_.txn("look", transaction({}, {get(start_key(name_of(key)))}, {}),
                        client_.usual_deadline()));
  Starts s{client_.store_now(), parse_start(seen.range(0))};
  if (s.last && s.last->until <= s.now) s.last.reset();
  return s;
}

// A compare-and-set on the note's revision, under the grant: a late or repeated one changes
// nothing. The note's lease is never renewed; it outlives the note.
Result<Noted> QueueBackend::note_start(const Lease& lease, const StartChange& change) {
  if (!traits_.starts) return fail(cannot("--once-per"));
  const Deadline until = client_.usual_deadline();
  const std::string key = start_key(name_of(lease.key));
  TRY(h, held(lease, "note the start", until));
  if (!h) return Noted::not_held;
  const Json grant = created(h->key, revision(*h));
  for (unsigned tries = 0; tries < most_changes; ++tries) {
    TRY(seen, client_.txn("note the start", transaction({grant}, {get(key)}, {}), until));
    if (!seen.succeeded) return Noted::not_held;
    const auto noted = parse_start(seen.range(0));
    const std::int64_t now = client_.store_now();
    if (!change.fits(noted, now)) return Noted::other_start;
    if (noted == change.is) return Noted::yes;
    Parts then = {remove(key)};
    if (change.is) {
      const Duration rest{std::max<std::int64_t>(0, change.is->until - now)};
      TRY(keeper, client_.grant("note the start", rest + note_slack, until));
      then = {put(key, fmt::format("{} {}", change.is->at, change.is->until), keeper.id)};
    }
    const std::int64_t revision = seen.range(0).empty() ? 0 : seen.range(0).front().modified;
    TRY(made,
        client_.txn("note the start",
                    transaction({grant, modified(key, revision)}, std::move(then), {}), until));
    if (made.succeeded) return Noted::yes;
  }
  return fail(no_answer("note the start", where()));
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

Result<std::vector<Finding>> QueueBackend::doctor() { return examine(client_); }

}  // namespace dlock::etcd
