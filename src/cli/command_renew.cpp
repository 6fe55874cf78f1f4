// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/trace.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {

using namespace std::chrono_literals;

Result<run::Outcome> command_renew(const Options& o) {
  const auto key = parse_key(o);
  if (!key) return fail(key.error());
  if (o.ttl < 2s && !o.allow_short_ttl)
    return fail(blame(o, "ttl"), fmt::format("{}: must be at least 2s (--allow-short-ttl permits less)", called(o, "ttl")));
  const auto trace = Trace::open(o.trace);
  if (!trace) return fail(trace.error());
  const auto opened = open_store(o);
  if (!opened) return fail(opened.error());
  const auto handle = require_handle(o, opened->store);
  if (!handle) return fail(handle.error());

  const Lease lease{.key = *key, .owner = handle->owner, .ticket = handle->extra};
  const Traced what{.request = "renew", .key = key->text(), .owner = handle->owner.hex().substr(0, 8)};
  const auto answer = trace->around(
      what, [&] { return opened->backend->renew(lease, o.ttl); },
      [](const Renewal& r) { return std::holds_alternative<Kept>(r); });
  if (!answer) return fail(answer.error());
  if (const Lost* lost = std::get_if<Lost>(&*answer)) {
    if (!o.quiet) say(fmt::format("{} is not held by this handle: {}", printable(key->text()), printable(lost->why)));
    return ended(status_busy);
  }
  return ended(status_ok);
}

}  // namespace dlock::cli
