// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "cli/store.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "util/fd.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest = 4096;

// The first line, without its end: what follows may come from a process that lives on (`acquire --hold | ...`), so the end
// of the file is not waited for. nullopt: errno says why, EFBIG if it is longer than a handle can be.
std::optional<std::string> read_line(int fd) {
  std::string text;
  for (std::array<char, 512> block; text.size() <= longest;) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    text.append(block.data(), static_cast<std::size_t>(n));
    const auto end = text.find('\n');
    if (n == 0 || end != std::string::npos) return text.substr(0, end);
  }
  errno = EFBIG;
  return std::nullopt;
}

bool of(const Handle& h, const Store& s) { return h.family == s.traits->family && h.recipe == s.traits->recipe; }

// Handle::parse says "--handle: ..."; here it came from elsewhere.
Result<Handle> from_elsewhere(std::string_view text, std::string_view where, Errc code) {
  auto h = Handle::parse(text);
  if (h) return h;
  constexpr std::string_view begin = "--handle: ";
  std::string_view what = h.error().message;
  if (what.starts_with(begin)) what.remove_prefix(begin.size());
  return fail(code, fmt::format("{}: {}", where, what));
}

Result<Handle> from_option(std::string_view value) {
  if (value == "-") {
    const auto text = read_line(STDIN_FILENO);
    if (!text) return fail(Errc::usage, fmt::format("--handle -: cannot read standard input: {}", ::strerrordesc_np(errno)));
    return from_elsewhere(*text, "--handle -: standard input", Errc::usage);
  }
  if (!value.starts_with('@')) return Handle::parse(value);

  const std::string path(value.substr(1));
  const std::string name = fmt::format("--handle @FILE: {}", quoted(path));
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  const auto text = fd ? read_line(fd.get()) : std::nullopt;
  if (!text) return fail(Errc::config, fmt::format("{} cannot be read: {}", name, ::strerrordesc_np(errno)));
  return from_elsewhere(*text, name, Errc::config);
}

}  // namespace

Result<std::optional<Handle>> find_handle(const Options& o, const Store& s) {
  if (o.handle) {
    auto h = from_option(*o.handle);
    if (!h) return fail(h.error());
    if (!of(*h, s))
      return fail(Errc::usage, fmt::format("--handle: it is a handle of {}.{}, but --backend is {}.{}", h->family, h->recipe,
                                           s.traits->family, s.traits->recipe));
    return *h;
  }
  const char* inherited = std::getenv("DLOCK_HANDLE");  // NOLINT(concurrency-mt-unsafe): no thread exists
  auto h = Handle::parse(inherited ? inherited : "");
  if (!h || !of(*h, s)) return std::nullopt;  // of another backend: not meant
  return *h;
}

Result<Handle> require_handle(const Options& o, const Store& s) {
  auto h = find_handle(o, s);
  if (!h) return fail(h.error());
  if (*h) return **h;
  return fail(Errc::usage, fmt::format("{}: --handle is missing, and DLOCK_HANDLE holds no handle of {}.{}", info(o.verb).name,
                                       s.traits->family, s.traits->recipe));
}

}  // namespace dlock::cli
