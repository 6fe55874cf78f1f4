// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "cli/options/config_text.hpp"
#include "cli/say.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {

Result<run::Outcome> command_config(const Options& o) {
  TRY_VOID(put(o.report ? debug_report(o) : config_text(o)));
  return ended(status_ok);
}

}  // namespace dlock::cli
