// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/exit_status.hpp"
#include "cli/grant_output.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/taking.hpp"

namespace dlock::cli {
namespace {

// The lease is granted but its handle could not be printed, so nobody could ever renew or release it: it is given back on a
// new connection (the one that took it is gone with its thread). If that fails too it ends by its ttl, and the message says so.
run::Outcome give_back(const run::Plan& plan, const Lease& lease, const Error& why) {
  Settings settings;
  settings.op_timeout = plan.timing.op_timeout;
  const auto backend = plan.open(settings);
  const auto released = backend ? (*backend)->release(lease) : tl::unexpected<Error>(backend.error());
  const std::string what = released ? "the lock was released"
                                    : fmt::format("and the lock could not be released ({}); it ends by its --ttl", released.error().message);
  say(fmt::format("acquire: {}; {}", why.message, what));
  return {.value = status_failed_holding};
}

}  // namespace

Result<run::Outcome> command_acquire(const Options& o) {
  const auto store = choose_store(o);
  if (!store) return fail(store.error());
  if (!o.hold && !store->traits->detached)
    return fail(Errc::usage, fmt::format("acquire: with recipe {} of {} no lock outlives its process; use --hold, which keeps one",
                                         store->traits->recipe, store->traits->family));
  // Asked before anything is locked. (What fails later, a full disk or a reader that has gone, is give_back's.)
  if (auto r = stdout_usable(); !r) return fail(r.error().code, fmt::format("acquire: {}: the handle could not be printed", r.error().message));
  const auto plan = plan_taking(o, *store, o.hold ? Hold::attached : Hold::detached);
  if (!plan) return fail(plan.error());

  std::optional<Lease> granted;
  Result<void> printed;
  const run::Outcome outcome = run::take(*plan, [&](const Lease& lease, const Backend&) {
    granted = lease;
    printed = put(text_of_grant(o.output, lease, *store, o.ttl));
    return printed.has_value();
  });
  if (!o.hold && granted && !printed) return give_back(*plan, *granted, printed.error());
  return outcome;
}

}  // namespace dlock::cli
