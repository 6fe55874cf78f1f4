// SPDX-License-Identifier: Apache-2.0
#include "file/lock_table.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <string>
#include "core/number.hpp"
#include "core/text.hpp"
#include "util/fd.hpp"

namespace dlock::file {
namespace {

std::string_view field(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return next_until(line, " ");
}

}  // namespace

// A line is "1: FLOCK  ADVISORY  WRITE 1437 fd:00:16515076 0 EOF". If the process waits for the
// lock, "->" follows the number.
std::vector<FlockEntry> parse_lock_table(std::string_view text, dev_t device, ino_t inode) {
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", gnu_dev_major(device), gnu_dev_minor(device), inode);
  std::vector<FlockEntry> found;
  while (!text.empty()) {
    std::string_view line = next_part(text, '\n');
    field(line);
    if (field(line) != "FLOCK") continue;
    field(line);
    const bool exclusive = field(line) == "WRITE";
    const pid_t pid = parse_number<pid_t>(field(line)).value_or(0);
    if (field(line) == wanted && pid > 0) found.push_back({pid, exclusive});
  }
  return found;
}

// The kernel indents the line of each waiter by its place in the queue, so 5,000 waiters make 12
// MB. So this function keeps only the current line, without its indentation.
std::optional<std::vector<FlockEntry>> read_lock_table(int table, dev_t device, ino_t inode) {
  std::vector<FlockEntry> found;
  std::string line;
  bool empty = true;
  char part[16384];
  for (ssize_t n = 0; (n = ::read(table, part, sizeof part)) > 0;)
    for (const char c : std::string_view(part, static_cast<std::size_t>(n))) {
      if (c == ' ' && line.ends_with(' ')) continue;
      line += c;
      if (c != '\n') continue;
      empty = false;
      for (const FlockEntry& e : parse_lock_table(line, device, inode)) found.push_back(e);
      line.clear();
    }
  return empty ? std::nullopt : std::optional{std::move(found)};
}

std::optional<std::vector<FlockEntry>> flock_entries(dev_t device, ino_t inode) {
  const Fd table(::open("/proc/locks", O_RDONLY | O_CLOEXEC));
  // Take a lock of our own, so that an empty table means that the table shows no locks here.
  const Fd ours(::memfd_create("dlock", MFD_CLOEXEC));
  if (ours) ::flock(ours.get(), LOCK_SH | LOCK_NB);
  return table ? read_lock_table(table.get(), device, inode) : std::nullopt;
}

std::optional<pid_t> flock_holder(dev_t device, ino_t inode) {
  const auto all = flock_entries(device, inode);
  return !all || all->empty() ? std::nullopt : std::optional{all->front().pid};
}

}  // namespace dlock::file
