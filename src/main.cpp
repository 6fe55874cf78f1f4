// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "job/entry.hpp"
#include "report/outcome.hpp"
#include "util/process_title.hpp"

int main(int argc, char** argv) {
  dlock::run::outlive_file_size_limit();
  dlock::remember_arguments(argc, argv);
  dlock::run::finish(dlock::cli::command_line(argc, argv));
}
