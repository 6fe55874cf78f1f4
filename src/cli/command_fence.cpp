// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "cli/make_plan.hpp"
#include "run/run.hpp"
#include "run/timing.hpp"
#include "store/fence_file.hpp"

namespace dlock::cli {

Result<run::Outcome> command_fence(const FenceOptions& o) {
  const std::string path(o.state);
  auto name = Key::parse(path.substr(path.rfind('/') + 1));  // messages show it as the key
  if (!name)
    return fail(
        Errc::usage,
        "--state: must be the name of a file, of at most 200 bytes without control characters");
  TRY(timing,
      run::plan_timing({.ttl = o.ttl, .op_timeout = std::nullopt, .kill_after = o.kill_after},
                       o.ttl, run::EndsBy::descriptor));

  run::Plan plan = plan_job(
      o, {.key = std::move(*name), .owner = Owner::random(), .ttl = o.ttl, .identity = {}});
  plan.traits = fence_traits;
  plan.timing = timing;
  plan.publish_environment = false;  // the command keeps the variables of an outer lock
  plan.open = [path, token = *o.token](Duration, int interrupt_fd) {
    return Result<std::unique_ptr<Backend>>{fence_file(path, token, interrupt_fd)};
  };
  return run::run(plan);
}

}  // namespace dlock::cli
