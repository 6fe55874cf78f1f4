// SPDX-License-Identifier: Apache-2.0
#include "bench/host.hpp"
#include <sys/utsname.h>
#include <unistd.h>
#include <string_view>
#include "core/text.hpp"
#include "util/file.hpp"

namespace dlock::bench {
namespace {

std::string processor_model() {
  constexpr std::string_view name = "model name\t: ";
  const Fd file = open_to_read("/proc/cpuinfo");
  const auto text = file ? read_text(file.get(), {.longest = 16 << 20}) : std::nullopt;
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = next_part(rest, '\n');
    if (line.starts_with(name)) return printable(line.substr(name.size()));
  }
  return {};
}

}  // namespace

Host this_host() {
  utsname u{};
  ::uname(&u);
  return {u.nodename, u.sysname,         u.release,
          u.machine,  processor_model(), ::sysconf(_SC_NPROCESSORS_ONLN)};
}

}  // namespace dlock::bench
