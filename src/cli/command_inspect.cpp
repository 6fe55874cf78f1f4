// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/inspect.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/trace.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {
namespace {

constexpr auto always = [](const auto&) { return true; };

// A row of the table for one key was asked for, not the view in full.
bool as_row(const Options& o) { return o.csv || o.no_heading || given_by_flag(o, "columns"); }

// The store could not be asked: what was to be shown is unknown, which is not the same as free.
tl::unexpected<Error> unknown(const Options& o, const OpenStore& opened, const std::vector<const Column*>& columns,
                              const Error& e) {
  if (e.code != Errc::usage && e.code != Errc::config && !o.check) {
    std::string text;
    if (o.json) text = json_of_unknown(o, opened, e);
    else if (o.operand)
      if (const auto key = Key::parse(*o.operand); key)
        text = as_row(o) ? table_of_unknown(*key, columns, o) : text_of_unknown_key(*key);
    if (const auto done = put(text); !done) return fail(done.error());
  }
  return fail(e);
}

Result<run::Outcome> shown(const std::string& text) {
  if (const auto done = put(text); !done) return fail(done.error());
  return ended(status_ok);
}

Result<run::Outcome> one(const Options& o, const OpenStore& opened, const Trace& trace,
                         const std::vector<const Column*>& columns) {
  const auto key = Key::parse(*o.operand);
  if (!key) return fail(key.error());
  const auto found = trace.around(
      {.request = "inspect", .key = key->text()}, [&] { return opened.backend->inspect(*key); }, always);
  if (!found) return unknown(o, opened, columns, found.error());
  const KeyView view = *found ? **found : free_key(*key);
  if (o.check) {
    const KeyState state = state_of(view);
    return ended(state == KeyState::held || state == KeyState::delayed ? status_busy : status_ok);
  }
  if (o.json) return shown(json_of_key(view, opened));
  if (o.csv) return shown(csv_of({view}, columns, !o.no_heading));
  if (!as_row(o)) return shown(text_of_key(view, opened));
  return shown(table_of({view}, columns, !o.no_heading));
}

Result<run::Outcome> list(const Options& o, const OpenStore& opened, const Trace& trace,
                          const std::vector<const Column*>& columns) {
  auto found = trace.around(
      {.request = "list"}, [&] { return opened.backend->list(); }, always);
  if (!found) return unknown(o, opened, columns, found.error());
  std::erase_if(*found, [&](const KeyView& k) {
    const KeyState state = state_of(k);
    if (o.held) return state != KeyState::held && state != KeyState::delayed;
    return o.stale && !has_stale_holder(k);
  });
  if (o.json) return shown(json_of_list(*found, opened));
  if (o.csv) return shown(csv_of(*found, columns, !o.no_heading));
  return shown(table_of(*found, columns, !o.no_heading));
}

}  // namespace

Result<run::Outcome> command_inspect(const Options& o) {
  const auto columns = choose_columns(o);
  if (!columns) return fail(columns.error());
  const auto trace = Trace::open(o.trace);
  if (!trace) return fail(trace.error());
  const auto opened = open_store(o);
  if (!opened) return fail(opened.error());
  return o.operand ? one(o, *opened, *trace, *columns) : list(o, *opened, *trace, *columns);
}

}  // namespace dlock::cli
