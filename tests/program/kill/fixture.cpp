// SPDX-License-Identifier: Apache-2.0
#include "fixture.hpp"
#include <fcntl.h>
#include "support/options.hpp"

namespace dlock::test {

pid_t Fixture::server() const {
  const auto children = children_of(program.pid());
  if (children.size() != 1) give_up("a fixture should have one child, its server");
  return children[0];
}

std::optional<Fixture> start_fixture(const char* store, const std::string& file) {
  const std::string err = file + ".err";
  const Fd errors(::open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Fixture f{Process::start({.argv = {program_from("STORE_PROGRAM"), store, file},
                            .fds = {{0, null.get()}, {2, errors.get()}}}),
            {}};
  for (const double end = boot_now() + 60; boot_now() < end && !f.program.wait(0.02);) {
    f.url = read_file(file);
    if (f.url.empty()) continue;
    f.url.resize(f.url.find('\n'));
    return f;
  }
  if (read_file(err).find("SKIPPED") == std::string::npos)
    give_up(std::string(store) + ": " + read_file(err));
  return std::nullopt;
}

}  // namespace dlock::test
