// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>
#include "cli/command.hpp"
#include "cli/say.hpp"
#include "core/exit_status.hpp"
#include "run/entry.hpp"
#include "run/outcome.hpp"
#include "util/process_title.hpp"

int main(int argc, char** argv) {
  dlock::run::outlive_file_size_limit();
  dlock::remember_arguments(argc, argv);
  dlock::run::Outcome outcome;
  try {
    outcome = dlock::cli::command_line(argc, argv);
  } catch (const std::exception& e) {
    dlock::cli::say(std::string("this is a bug: ") + e.what());
    outcome = dlock::cli::ended(dlock::status_bug);
  }
  dlock::run::finish(outcome);
}
