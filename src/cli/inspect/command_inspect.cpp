// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fnmatch.h>
#include <algorithm>
#include "cli/command.hpp"
#include "cli/inspect/columns.hpp"
#include "cli/inspect/doctor.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output_json.hpp"
#include "cli/inspect/output_text.hpp"
#include "cli/inspect/watch.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/trace.hpp"
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

constexpr auto always = [](const auto&) { return true; };

// A row of the table for one key was requested, not the full view.
bool as_row(const Options& o) { return o.csv || o.no_heading || given_by_flag(o, "columns"); }

// The store cannot be reached: the state is unknown, which is not the same as free.
tl::unexpected<Error> unknown(const Options& o, const OpenStore& opened,
                              const std::vector<const Column*>& columns, const Error& e) {
  if (e.code != Errc::usage && e.code != Errc::config && !o.check) {
    std::string text;
    if (o.json) text = json_of_unknown(o, opened, e);
    else if (o.operand)
      if (const auto key = Key::parse(*o.operand); key)
        text = as_row(o) ? table_of_unknown(*key, columns, o) : text_of_unknown_key(*key);
    TRY_VOID(put(text));
  }
  return fail(e);
}

// A pattern, if no key has that literal name.
bool is_pattern(std::string_view text) noexcept { return text.find_first_of("*?[") != text.npos; }

// In the order of --sort; the store's is by key.
void arrange(const Options& o, std::vector<KeyView>& keys) {
  const auto held_for = [](const KeyView& k) {
    if (k.holders.empty()) return Duration{-1};
    const HolderView& h = k.holders.front();
    return h.held.value_or(age(h.who).value_or(Duration{}));
  };
  if (o.sort == Options::Sort::age)
    std::stable_sort(keys.begin(), keys.end(),
                     [&](const KeyView& a, const KeyView& b) { return held_for(a) > held_for(b); });
  if (o.sort == Options::Sort::waiters)
    std::stable_sort(keys.begin(), keys.end(), [](const KeyView& a, const KeyView& b) {
      return a.waiters.size() > b.waiters.size();
    });
}

bool is_taken(const KeyView& k) {
  const KeyState state = state_of(k);
  return state == KeyState::held || state == KeyState::delayed;
}

// No key of this name was found, so a pattern is one.
bool unheard_of(const std::optional<KeyView>& k) {
  return !k || (!k->unread.empty() && k->fence == 0 && k->holders.empty() && k->waiters.empty());
}

// Why the state of this key, or of some keys of a list, is not known; empty: it is.
std::string unread_of(const KeyView& k) { return state_of(k) == KeyState::unknown ? k.unread : ""; }
std::string unread_of(const std::vector<KeyView>& keys, Backend& backend) {
  const bool missing = backend.health().grants_nothing;
  std::string why;
  for (const KeyView& k : keys)
    if (why.empty() && (missing || state_of(k) == KeyState::unknown)) why = k.unread;
  if (!missing) return why;
  if (why.empty()) why = "the store may have forgotten locks, and grants nothing now";
  return why + "; keys may be missing here";
}

// After what was found was printed.
Result<run::Outcome> known_or_not(const std::string& unread, std::string_view about) {
  if (unread.empty()) return ended(status_ok);
  return fail(Errc::unavailable, fmt::format("{}: {}", printable(about), unread));
}

// The keys that the command line asks for, of all that the store has.
void keep_wanted(const Options& o, std::vector<KeyView>& keys) {
  const std::string pattern(o.operand.value_or(""));
  std::erase_if(keys, [&](const KeyView& k) {
    if (o.operand && ::fnmatch(pattern.c_str(), k.key.c_str(), 0) != 0) return true;
    if (o.held) return !is_taken(k);
    return o.stale && !has_stale_holder(k);
  });
  arrange(o, keys);
}

Result<run::Outcome> list(const Options& o, const OpenStore& opened, const Trace& trace,
                          const std::vector<const Column*>& columns) {
  auto found = trace.around(
      {.request = "list"}, [&] { return dlock::list(*opened.backend); }, always);
  if (!found) return unknown(o, opened, columns, found.error());
  const std::string unread = unread_of(*found, *opened.backend);
  for (KeyView& k : *found) note_limits(k);
  keep_wanted(o, *found);
  if (o.check) {
    if (std::any_of(found->begin(), found->end(), is_taken)) return ended(status_busy);
  } else if (const auto done = put(o.json  ? json_of_list(*found, opened, unread)
                                   : o.csv ? csv_of(*found, columns, !o.no_heading)
                                           : table_of(*found, columns, !o.no_heading));
             !done) {
    return fail(done.error());
  }
  return known_or_not(unread, o.operand.value_or("inspect"));
}

// One key in full. Asks once more where the recipe notes starts.
std::string full_view(const OpenStore& opened, const Key& key, const KeyView& view, bool json) {
  const auto starts =
      opened.store.traits->starts ? opened.backend->starts(key) : Result<Starts>(Starts{});
  if (json) return json_of_key(view, opened, starts);
  return text_of_key(view, opened, starts);
}

Result<run::Outcome> one(const Options& o, const OpenStore& opened, const Trace& trace,
                         const std::vector<const Column*>& columns) {
  TRY(key, Key::parse(*o.operand));
  const auto found = trace.around(
      {.request = "inspect", .key = key.text()}, [&] { return opened.backend->inspect(key); },
      always);
  if (!found) return unknown(o, opened, columns, found.error());
  if (unheard_of(*found) && is_pattern(*o.operand)) return list(o, opened, trace, columns);
  KeyView view = *found ? **found : free_key(key);
  note_limits(view);
  if (o.check) {
    if (is_taken(view)) return ended(status_busy);
  } else if (const auto done =
                 put(o.csv                  ? csv_of({view}, columns, !o.no_heading)
                     : o.json || !as_row(o) ? full_view(opened, key, view, o.json)
                                            : table_of({view}, columns, !o.no_heading));
             !done) {
    return fail(done.error());
  }
  return known_or_not(unread_of(view), key.text());
}

Result<run::Outcome> doctor(const Options& o, const OpenStore& opened, const Trace& trace) {
  const auto found = trace.around(
      {.request = "doctor"}, [&] { return opened.backend->doctor(); }, always);
  if (!found) return fail(found.error());
  const auto done =
      put(o.json ? json_of_findings(*found, opened) : text_of_findings(*found, opened));
  if (!done) return fail(done.error());
  return ended(unfit(*found) ? status_stale : status_ok);
}

// Values that change with time alone are not compared.
std::string without_times(const std::vector<KeyView>& keys) {
  std::string text;
  for (const KeyView& k : keys) {
    text += fmt::format("{}\n{} {}\n", k.key, state_name(state_of(k)), k.fence);
    for (const HolderView& h : k.holders)
      text += fmt::format("H {} {} {} {} {} {}\n", h.id, h.token, h.slot, h.vanished, h.revoked,
                          h.who.encode());
    for (const WaiterView& w : k.waiters) text += fmt::format("W {} {}\n", w.id, w.who.encode());
    for (const std::string& n : k.notes) text += n + '\n';
  }
  return text;
}

// One look, with any result: an unreachable store may be back at the next one.
Look look(const Options& o, const OpenStore& opened, const std::vector<const Column*>& columns,
          bool redraw) {
  Result<std::vector<KeyView>> keys = std::vector<KeyView>{};
  bool one_key = false;
  if (o.operand) {
    const auto key = Key::parse(*o.operand).value();
    auto found = opened.backend->inspect(key);
    one_key = !found || !unheard_of(*found) || !is_pattern(*o.operand);
    if (!found) keys = fail(found.error());
    else if (one_key) keys->push_back(*found ? **found : free_key(key));
  }
  if (!one_key) {
    keys = dlock::list(*opened.backend);
    if (keys) keep_wanted(o, *keys);
  }
  if (!keys)
    return {redraw ? fmt::format("? {}\n", printable(keys.error().message))
                   : json_of_unknown(o, opened, keys.error()),
            "?"};
  for (KeyView& k : *keys) note_limits(k);
  const std::string unread = one_key ? "" : unread_of(*keys, *opened.backend);
  std::string compare = without_times(*keys) + (unread.empty() ? "" : "?");
  if (!redraw)
    return {one_key ? full_view(opened, Key::parse(*o.operand).value(), keys->front(), true)
                    : json_of_list(*keys, opened, unread),
            std::move(compare)};
  std::string text = fmt::format("{}, every {}; q ends\n\n", printable(opened.backend->where()),
                                 format_duration(*o.watch));
  text += one_key && !as_row(o)
              ? full_view(opened, Key::parse(*o.operand).value(), keys->front(), false)
              : table_of(*keys, columns, !o.no_heading);
  if (!unread.empty()) text += fmt::format("? {}\n", printable(unread));
  return {std::move(text), std::move(compare)};
}

}  // namespace

Result<run::Outcome> command_inspect(const Options& o) {
  TRY(columns, choose_columns(o));
  TRY(trace, Trace::open(o.trace));
  TRY(opened, open_store(o));
  if (o.doctor) return doctor(o, opened, trace);
  if (o.watch) {
    if (o.operand) TRY_VOID(Key::parse(*o.operand));
    const bool redraw = terminal_on_stdout() && !o.json;
    if (auto done = watch(*o.watch, redraw, [&] { return look(o, opened, columns, redraw); });
        !done)
      return fail(done.error());
    return ended(status_ok);
  }
  return o.operand ? one(o, opened, trace, columns) : list(o, opened, trace, columns);
}

}  // namespace dlock::cli
