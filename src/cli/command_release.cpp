// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/inspect/inspect.hpp"
#include "cli/keeper_handle.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/trace.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {
namespace {

constexpr auto was_held = [](Released r) { return r == Released::yes; };

// --force alone: shows the holder and changes nothing.
Result<run::Outcome> refuse_force(const Key& key, const OpenStore& opened) {
  const auto view = opened.backend->inspect(key);
  if (!view) return fail(view.error());
  const auto shown = put(text_of_key(*view ? **view : free_key(key), opened));
  if (!shown) return fail(shown.error());
  const bool unheld = !*view || (*view)->holders.empty();
  if (unheld)
    return fail(Errc::usage,
                fmt::format("release: {} is not held; --force needs --token N or --yes",
                            printable(key.text())));
  return fail(
      Errc::usage,
      fmt::format(
          "release: --force needs --token {} (this holder and no other) or --yes (all holders)",
          (*view)->holders.front().token));
}

// How one key is released; with the handle unless --force or --revoke was given.
Result<Released> give_back(const Options& o, const OpenStore& opened, const Trace& trace,
                           const Key& key, const Handle* handle) {
  Traced what{.request = o.force    ? "force_release"
                         : o.revoke ? "revoke"
                                    : "release",
              .key = key.text(),
              .token = o.token};
  if (handle) what.owner = handle->lease(key).owner.hex().substr(0, 8);
  return trace.around(
      what,
      [&] {
        if (o.force) return opened.backend->force_release(key, o.token);
        if (o.revoke) return opened.backend->revoke(key);
        return opened.backend->release(handle->lease(key));
      },
      was_held);
}

Result<run::Outcome> not_held(const Options& o, std::string_view key) {
  if (o.if_held) return ended(status_ok);
  if (!o.quiet) {
    const std::string by = o.revoke   ? ""
                           : !o.force ? " by this handle"
                           : o.token  ? fmt::format(" with token {}", *o.token)
                                      : "";
    say(fmt::format("{} is not held{}", printable(key), by));
  }
  return ended(status_busy);
}

}  // namespace

Result<run::Outcome> command_release(const Options& o) {
  const auto keys = parse_keys(o);
  if (!keys) return fail(keys.error());
  const auto trace = Trace::open(o.trace);
  if (!trace) return fail(trace.error());
  const auto opened = open_store(o);
  if (!opened) return fail(opened.error());
  const Traits& t = *opened->store.traits;
  if (o.revoke && !t.revokes)
    return fail(
        Errc::usage,
        fmt::format("release: --revoke: with recipe {} of {} a holder cannot be asked to stop",
                    t.recipe, t.family));
  if (o.force && !o.token && !o.yes) return refuse_force(keys->front(), *opened);

  std::optional<Handle> handle;
  if (!o.force && !o.revoke) {
    auto h = require_handle(o, opened->store);
    if (!h) return fail(h.error());
    handle = std::move(*h);
    const auto kept = ask_keeper_of(*handle, "release");
    if (!kept) return fail(kept.error());
    if (*kept == run::KeeperAnswer::done) return ended(status_ok);
    if (*kept) return not_held(o, keys->front().text());
  }
  // All of them, whatever the result for the first: a held key must be released even if another was
  // not held.
  Result<run::Outcome> outcome = ended(status_ok);
  for (const Key& key : *keys) {
    const auto answer = give_back(o, *opened, *trace, key, handle ? &*handle : nullptr);
    if (!answer) outcome = fail(answer.error());
    else if (*answer != Released::yes)
      if (auto missed = not_held(o, key.text()); outcome && missed->value != status_ok)
        outcome = missed;
  }
  return outcome;
}

}  // namespace dlock::cli
