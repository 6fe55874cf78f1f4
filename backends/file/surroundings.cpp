// SPDX-License-Identifier: Apache-2.0
#include "file/surroundings.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <cstdlib>
#include <memory>
#include "core/text.hpp"
#include "util/fd.hpp"

namespace dlock::file {
namespace {

using Level = Finding::Level;

struct Free {
  void operator()(char* text) const noexcept { std::free(text); }
};

// The nearest directory on the way to `path`, itself included, that all users may write to.
Finding way(const std::string& path) {
  const std::unique_ptr<char, Free> real(::realpath(path.c_str(), nullptr));
  std::string at = real ? std::string(real.get()) : path;
  for (;;) {
    struct stat st {};
    if (::stat(at.c_str(), &st) == 0 && (st.st_mode & S_IWOTH) != 0) break;
    if (at.size() <= 1) return {Level::good, "way to it", "only its owner and root may write", ""};
    at.resize(std::max<std::size_t>(at.rfind('/'), 1));
  }
  return {Level::bad, "way to it", fmt::format("all users may write to {}", at),
          "use a directory outside: what is cleaned by age, as /tmp is, loses locks, and a lock "
          "that is deleted is a lock that is open"};
}

std::string first_bytes(const char* path) {
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text{};
  const ssize_t n = fd ? ::read(fd.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<std::size_t>(n > 0 ? n : 0)};
}

// "boottime       100         0": this process is in a time namespace whose clock is 100 s ahead.
bool shifted(std::string_view offsets) {
  const auto at = offsets.find("boottime");
  return at != offsets.npos && offsets.find_first_of("123456789", at) != offsets.npos;
}

Finding clock() {
  std::string source =
      first_bytes("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  while (source.ends_with('\n')) source.pop_back();
  if (shifted(first_bytes("/proc/self/timens_offsets")))
    return {Level::warning, "clock", "a time namespace of its own",
            "leases end at other moments here than for the processes outside: use one namespace"};
  if (source.empty()) return {Level::unknown, "clock", "the source is not known", ""};
  if (source.ends_with("jiffies"))
    return {Level::warning, "clock", source, "it counts ticks: leases end some ms early or late"};
  return {Level::good, "clock", printable(source), ""};
}

}  // namespace

void judge_surroundings(const std::string& path, std::vector<Finding>& found) {
  found.push_back(way(path));
  found.push_back(clock());
}

}  // namespace dlock::file
