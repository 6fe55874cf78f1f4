// SPDX-License-Identifier: Apache-2.0
#include "file/lock_table.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <string>
#include "core/number.hpp"
#include "util/fd.hpp"

namespace dlock::file {
namespace {

std::string_view word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view w = line.substr(0, line.find(' '));
  line.remove_prefix(w.size());
  return w;
}

}  // namespace

// "1: FLOCK  ADVISORY  WRITE 1437 fd:00:16515076 0 EOF"; a waiting process has "->" after the
// number.
std::vector<FlockEntry> parse_lock_table(std::string_view text, dev_t device, ino_t inode) {
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", gnu_dev_major(device), gnu_dev_minor(device), inode);
  std::vector<FlockEntry> found;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    word(line);
    if (word(line) != "FLOCK") continue;
    word(line);
    const bool exclusive = word(line) == "WRITE";
    const pid_t pid = parse_number<pid_t>(word(line)).value_or(0);
    if (word(line) == wanted && pid > 0) found.push_back({pid, exclusive});
  }
  return found;
}

std::vector<FlockEntry> flock_entries(dev_t device, ino_t inode) {
  const Fd table(::open("/proc/locks", O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  for (ssize_t n = 0; table && (n = ::read(table.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  return parse_lock_table(text, device, inode);
}

std::optional<pid_t> flock_holder(dev_t device, ino_t inode) {
  const auto all = flock_entries(device, inode);
  return all.empty() ? std::nullopt : std::optional{all.front().pid};
}

}  // namespace dlock::file
