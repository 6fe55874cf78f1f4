// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/grant_output.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/taking.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {
Result<run::Outcome> command_acquire(const Options& o) {
  const auto store = choose_store(o);
  if (!store) return fail(store.error());
  if (!o.hold && !store->traits->detached)
    return fail(Errc::usage,
                fmt::format("acquire: with recipe {} of {} no lock outlives its process; use --hold, which keeps one",
                            store->traits->recipe, store->traits->family));
  // Asked before anything is locked, and before run/ fills a closed descriptor with /dev/null.
  if (auto r = stdout_usable(); !r)
    return fail(r.error().code, fmt::format("acquire: {}: the handle could not be printed", r.error().message));
  const auto plan = plan_taking(o, *store, o.hold ? Hold::attached : Hold::detached);
  if (!plan) return fail(plan.error());

  // A handle that cannot be printed is lost, and nobody could renew or release with it: take() then gives the lock back on the
  // connection that took it, and ends with 125. If that fails as well, it says so, and the lease ends by its --ttl.
  return run::take(*plan, [&](const Lease& lease) {
    const auto printed = put(text_of_grant(o.output, lease, *store, o.ttl));
    if (!printed) say(fmt::format("acquire: {}: the lock is given back", printed.error().message));
    return printed.has_value();
  });
}

}  // namespace dlock::cli
