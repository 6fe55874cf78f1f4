// SPDX-License-Identifier: Apache-2.0
#include "util/process_title.hpp"
#include <algorithm>
#include <cstring>

namespace dlock {
namespace {

char* arguments = nullptr;
std::size_t room = 0;

}  // namespace

void remember_arguments(int argc, char** argv) noexcept {
  if (argc < 1) return;
  char* end = argv[0];
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  arguments = argv[0];
  room = static_cast<std::size_t>(end - argv[0]);
}

// The kernel shows all of this memory as the title. But if its last byte is not zero any more, the
// kernel shows only the first string in it (see proc_pid_cmdline(5)).
void set_process_title(std::string_view title) noexcept {
  if (room < 2) return;
  std::memset(arguments, 0, room - 1);
  std::memcpy(arguments, title.data(), std::min(title.size(), room - 2));
  arguments[room - 1] = '.';
}

}  // namespace dlock
