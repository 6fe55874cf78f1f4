// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fnmatch.h>
#include <algorithm>
#include <functional>
#include "cli/command.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"
#include "cli/inspect/watch.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "util/secret_file.hpp"
#include "util/terminal.hpp"

namespace dlock::cli {
namespace {

// The keys that the command line asks for, as the store reports them.
struct Found {
  std::vector<KeyView> keys;
  std::optional<Key> key;      // set: one key was named; not set: a list
  std::string unknown_reason;  // why the state of some keys is unknown; empty: all are known
};

// Returns whether to show one key as a row of the table instead of the full view.
bool as_row(const InspectOptions& o) {
  return o.csv || o.no_heading || given_by_flag(o, "columns");
}

bool is_taken(const KeyView& k) {
  const KeyState state = state_of(k);
  return state == KeyState::held || state == KeyState::delayed;
}

// Returns whether the store has no key of this name. If so, the operand may be a pattern.
bool is_unrecorded(const std::optional<KeyView>& k) {
  return !k ||
         (!k->unknown_reason.empty() && k->fence == 0 && k->holders.empty() && k->waiters.empty());
}

std::string unread_of(const KeyView& k) {
  return state_of(k) == KeyState::unknown ? k.unknown_reason : "";
}

std::string unread_of(const std::vector<KeyView>& keys, bool missing) {
  std::string why;
  for (const KeyView& k : keys)
    if (why.empty()) why = missing ? k.unknown_reason : unread_of(k);
  if (!missing) return why;
  if (why.empty()) why = "the store may have forgotten locks, and grants nothing now";
  return why + "; keys may be missing here";
}

// Keeps the keys that the command line asks for, in the order of --sort. The store has already
// sorted them by key.
void keep_wanted(const InspectOptions& o, std::vector<KeyView>& keys) {
  const std::string pattern(o.operand.value_or(""));
  std::erase_if(keys, [&](const KeyView& k) {
    if (o.operand && ::fnmatch(pattern.c_str(), k.key.c_str(), 0) != 0) return true;
    if (o.held) return !is_taken(k);
    return o.stale && !has_stale_holder(k);
  });
  const Deadline now = Clock::now();
  const auto weight = [&](const KeyView& k) -> std::int64_t {
    if (o.sort == InspectOptions::Sort::key) return 0;
    if (o.sort == InspectOptions::Sort::waiters) return static_cast<std::int64_t>(k.waiters.size());
    if (k.holders.empty()) return -1;
    const HolderView& h = k.holders.front();
    return h.held(now).value_or(age(h.who).value_or(Duration{})).count();
  };
  std::ranges::stable_sort(keys, std::greater{}, weight);
}

// Finds the keys. The operand is a pattern only if it is not the name of a key.
Result<Found> find(const InspectOptions& o, const OpenStore& opened, const Trace& trace) {
  Backend& backend = *opened.backend;
  if (o.operand) {
    TRY(key, Key::parse(*o.operand));
    const auto inspect = [&] { return backend.inspect(key); };
    TRY(view, trace.around({.request = "inspect", .key = key.text()}, inspect));
    if (!is_unrecorded(view) || o.operand->find_first_of("*?[") == o.operand->npos) {
      Found one{{view ? std::move(*view) : free_key(key)}, key, {}};
      note_limits(one.keys.front());
      one.unknown_reason = unread_of(one.keys.front());
      return one;
    }
  }
  TRY(all, trace.around({.request = "list"}, [&] { return list(backend); }));
  const std::string unknown_reason = unread_of(all, backend.health().in_grace_period);
  Found list{std::move(all), {}, unknown_reason};
  for (KeyView& k : list.keys) note_limits(k);
  keep_wanted(o, list.keys);
  return list;
}

// Returns the full view of one key. It sends a second request if the recipe records starts and the
// key has a record.
std::string shown(const InspectOptions& o, const OpenStore& opened, const Columns& columns,
                  const Found& found, std::size_t width = SIZE_MAX) {
  if (found.key && !o.csv && (o.json || !as_row(o))) {
    const KeyView& k = found.keys.front();
    const bool known = k.fence != 0 || !k.holders.empty() || k.noted_start;
    const auto starts = opened.store.traits->starts && known ? opened.backend->starts(*found.key)
                                                             : Result<RunStarts>(RunStarts{});
    return o.json ? json_of_key(k, opened, starts) : text_of_key(k, opened, starts);
  }
  return o.json && !o.csv ? json_of_list(found.keys, opened, found.unknown_reason)
                          : table_of(found.keys, columns, o, width);
}

// For a store that cannot be reached: prints the state "unknown", which is not "free", and returns
// the error.
tl::unexpected<Error> unknown(const InspectOptions& o, const OpenStore& opened,
                              const Columns& columns, const Error& e) {
  if (e.code != Errc::usage && e.code != Errc::config && !o.check) {
    std::string text;
    const auto key = Key::parse(o.operand.value_or(""));
    if (o.json) text = json_of_unknown(o, opened, e);
    else if (key) text = as_row(o) ? table_of_unknown(*key, columns, o) : text_of_unknown_key(*key);
    TRY_VOID(print(text));
  }
  return fail(e);
}

Result<run::Outcome> once(const InspectOptions& o, const OpenStore& opened, const Trace& trace,
                          const Columns& columns) {
  const auto found = find(o, opened, trace);
  if (!found) return unknown(o, opened, columns, found.error());
  if (!o.check) TRY_VOID(print(shown(o, opened, columns, *found)));
  else if (std::ranges::any_of(found->keys, is_taken)) return ended(status_busy);
  if (found->unknown_reason.empty()) return ended(status_ok);
  return fail(Errc::unavailable, "{}: {}", printable(o.operand.value_or("inspect")),
              found->unknown_reason);
}

Result<run::Outcome> doctor(const InspectOptions& o, const OpenStore& opened, const Trace& trace) {
  TRY(found, trace.around({.request = "doctor"}, [&] { return opened.backend->doctor(); }));
  const Secrets& secrets = opened.store.secrets;
  for (const std::string& file :
       {secrets.password_file, secrets.auth_file, secrets.sentinel_password_file, secrets.tls_key})
    if (const auto who = file.empty() ? "" : readers_of_secret(file); !who.empty())
      found.push_back({Finding::Level::good, "secret", fmt::format("{}: {}", file, who), ""});
  TRY_VOID(print(o.json ? json_of_findings(found, opened) : text_of_findings(found, opened)));
  return ended(unfit(found) ? status_stale : status_ok);
}

// Returns the text that --watch compares to see changes. It contains no value that changes with
// time alone.
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

// Always returns a frame, because an unreachable store may be back for the next frame. The requests
// for a frame are not traced.
Frame frame(const InspectOptions& o, const OpenStore& opened, const Columns& columns, bool redraw) {
  auto found = find(o, opened, *Trace::open({}));
  if (!found)
    return {redraw ? fmt::format("? {}\n", printable(found.error().message))
                   : json_of_unknown(o, opened, found.error()),
            "?"};
  if (found->key) found->unknown_reason.clear();  // the state of the key shows it already
  InspectOptions as = o;
  as.json = !redraw;
  std::string text = shown(as, opened, columns, *found, terminal_size(STDOUT_FILENO).columns);
  if (redraw) {
    text = fmt::format("{}, every {}; q ends\n\n{}", printable(opened.backend->where()),
                       format_duration(*o.watch), text);
    if (!found->unknown_reason.empty())
      text += fmt::format("? {}\n", printable(found->unknown_reason));
  }
  return {std::move(text), without_times(found->keys) + (found->unknown_reason.empty() ? "" : "?")};
}

}  // namespace

Result<run::Outcome> command_inspect(const InspectOptions& o) {
  TRY(columns, choose_columns(o));
  TRY(trace, Trace::open(o.trace));
  TRY(opened, open_store(o));
  if (o.doctor) return doctor(o, opened, trace);
  if (!o.watch) return once(o, opened, trace, columns);
  if (o.operand) TRY_VOID(Key::parse(*o.operand));
  if (o.operand && parse_duration(*o.operand))
    say_warning(fmt::format("this watches the key {}; a time is --watch={}", quoted(*o.operand),
                            printable(*o.operand)));
  const bool redraw = can_redraw(STDOUT_FILENO) && !o.json;
  TRY_VOID(watch(*o.watch, redraw, [&] { return frame(o, opened, columns, redraw); }));
  return ended(status_ok);
}

}  // namespace dlock::cli
