// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/grant_output.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/taking.hpp"

namespace dlock::cli {
Result<run::Outcome> command_acquire(const Options& o) {
  const auto store = choose_store(o);
  if (!store) return fail(store.error());
  if (!o.hold && !store->traits->detached)
    return fail(Errc::usage,
                fmt::format("acquire: with recipe {} of {} no lock outlives its process; use --hold, which keeps one",
                            store->traits->recipe, store->traits->family));
  // Asked before anything is locked. (What fails later, a full disk or a reader that has gone, is give_back's.)
  if (auto r = stdout_usable(); !r)
    return fail(r.error().code, fmt::format("acquire: {}: the handle could not be printed", r.error().message));
  const auto plan = plan_taking(o, *store, o.hold ? Hold::attached : Hold::detached);
  if (!plan) return fail(plan.error());

  // Without its handle nobody could renew or release the lock: then take() gives it back, and ends with 125.
  return run::take(*plan, [&](const Lease& lease) {
    const auto printed = put(text_of_grant(o.output, lease, *store, o.ttl));
    if (!printed) say(fmt::format("acquire: {}; the lock is given back", printed.error().message));
    return printed.has_value();
  });
}

}  // namespace dlock::cli
