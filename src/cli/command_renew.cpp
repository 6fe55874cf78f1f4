// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/grant.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::cli {

using namespace std::chrono_literals;

namespace {

Result<run::Outcome> not_held(const GrantOptions& o, const Key& key, std::string_view why) {
  if (!o.quiet)
    say(fmt::format("{} is not held by this handle: {}", printable(key.text()), printable(why)));
  return ended(status_busy);
}

}  // namespace

Result<run::Outcome> command_renew(const GrantOptions& o) {
  TRY(keys, parse_keys(o));
  TRY(opened, open_store(o));
  TRY_VOID(check_ttl(o, opened.store));
  TRY(trace, Trace::open(o.trace));
  TRY(handle, require_handle(o, opened.store));
  TRY(kept, query_keeper_of(handle, "renew"));
  if (kept == run::KeeperAnswer::done) return ended(status_ok);
  if (kept) return not_held(o, keys.front(), "its keeper has ended");

  for (const Key& key : keys) {
    const Lease lease = handle.lease(key);
    const Traced what{.request = "renew", .key = key.text(), .owner = lease.owner};
    const auto answer = trace.around(what, [&] { return opened.backend->renew(lease, o.ttl); });
    if (!answer) return fail(answer.error());
    if (const Lost* lost = std::get_if<Lost>(&*answer)) return not_held(o, key, lost->why);
    if (std::get<Kept>(*answer).revoked && !o.quiet)
      say(fmt::format("{}: the holder was asked to stop (release --revoke)",
                      printable(key.text())));
  }
  return ended(status_ok);
}

}  // namespace dlock::cli
