// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "cli/options/config_text.hpp"
#include "cli/say.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {

Result<run::Outcome> command_config(const Options& o) {
  if (const auto done = put(o.report ? debug_report(o) : config_text(o)); !done)
    return fail(done.error());
  return ended(status_ok);
}

}  // namespace dlock::cli
