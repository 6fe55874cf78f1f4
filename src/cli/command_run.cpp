// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <vector>
#include "cli/command.hpp"
#include "cli/explain.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/taking.hpp"
#include "core/exit_status.hpp"
#include "run/run.hpp"

namespace dlock::cli {
namespace {

// argv of `-c STR [-- ARG...]`: $0 is "sh", as with sh -c STR sh ARG...
struct ShellCommand {
  std::array<std::string, 4> words;
  std::vector<char*> argv;

  ShellCommand(std::string_view text, char* const* arguments)
      : words{"/bin/sh", "-c", std::string(text), "sh"} {
    for (std::string& w : words) argv.push_back(w.data());
    for (; arguments && *arguments; ++arguments) argv.push_back(*arguments);
    argv.push_back(nullptr);
  }
  ~ShellCommand() = default;
  ShellCommand(const ShellCommand&) = delete;  // argv points into words
  ShellCommand& operator=(const ShellCommand&) = delete;
};

}  // namespace

Result<run::Outcome> command_run(const Options& o) {
  TRY(store, choose_store(o));
  TRY(plan, plan_taking(o, store, Hold::attached));
  if (o.explain) {
    TRY_VOID(explain(o, store, plan));
    return ended(status_ok);
  }
  if (!o.shell_command) return run::run(plan);
  const ShellCommand shell(*o.shell_command, o.command);
  plan.command = shell.argv.data();
  return run::run(plan);
}

}  // namespace dlock::cli
