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

constexpr auto was_held = [](Released r) { return r == Released::yes; };

// --force alone: shows whom it would hit and changes nothing.
Result<run::Outcome> refuse_force(const Key& key, const OpenStore& opened) {
  const auto view = opened.backend->inspect(key);
  if (!view) return fail(view.error());
  const auto shown = put(text_of_key(*view ? **view : free_key(key), opened));
  if (!shown) return fail(shown.error());
  const bool nobody = !*view || (*view)->holders.empty();
  if (nobody)
    return fail(Errc::usage, fmt::format("release: nobody holds {}; --force needs --token N or --yes", printable(key.text())));
  return fail(Errc::usage, fmt::format("release: --force needs --token {} (this holder and no other) or --yes (all holders)",
                                       (*view)->holders.front().token));
}

}  // namespace

Result<run::Outcome> command_release(const Options& o) {
  const auto key = parse_key(o);
  if (!key) return fail(key.error());
  const auto trace = Trace::open(o.trace);
  if (!trace) return fail(trace.error());
  const auto opened = open_store(o);
  if (!opened) return fail(opened.error());
  if (o.force && !o.token && !o.yes) return refuse_force(*key, *opened);

  Traced what{.request = o.force ? "force_release" : "release", .key = key->text(), .token = o.token};
  Result<Released> answer = Released::was_not_held;
  if (o.force) {
    answer = trace->around(
        what, [&] { return opened->backend->force_release(*key, o.token); }, was_held);
  } else {
    const auto handle = require_handle(o, opened->store);
    if (!handle) return fail(handle.error());
    const Lease lease{.key = *key, .owner = handle->owner, .ticket = handle->extra};
    what.owner = handle->owner.hex().substr(0, 8);
    answer = trace->around(
        what, [&] { return opened->backend->release(lease); }, was_held);
  }
  if (!answer) return fail(answer.error());
  if (*answer == Released::yes || o.if_held) return ended(status_ok);
  if (!o.quiet) {
    const std::string by = !o.force ? " by this handle" : o.token ? fmt::format(" with token {}", *o.token) : "";
    say(fmt::format("{} is not held{}", printable(key->text()), by));
  }
  return ended(status_busy);
}

}  // namespace dlock::cli
