// SPDX-License-Identifier: Apache-2.0
#include "cli/handle.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "cli/options/verbs.hpp"
#include "core/text.hpp"
#include "util/file.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest_handle = 128 * 1024;  // the longest value of one variable

// A process that lives on may write after the first line (`acquire --hold | ...`), so it does not
// wait for the end of the file.
std::optional<std::string> read_line(int fd, Deadline until) {
  return read_text(fd, {.longest = longest_handle, .first_line = true, .until = until});
}

bool of(const Handle& h, const Store& s) {
  return h.family == s.traits->family && h.recipe == s.traits->recipe;
}

// Handle::parse says "--handle: ..."; this one came from elsewhere.
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
    const auto text = read_line(STDIN_FILENO, no_deadline);
    if (!text)
      return fail(Errc::usage, fmt::format("--handle -: cannot read standard input: {}",
                                           ::strerrordesc_np(errno)));
    return from_elsewhere(*text, "--handle -: standard input", Errc::usage);
  }
  if (!value.starts_with('@')) return Handle::parse(value);

  const std::string path(value.substr(1));
  const std::string name = fmt::format("--handle @FILE: {}", dlock::quoted(path));
  const Fd fd = open_to_read(path);
  const auto text = fd ? read_line(fd.get(), later(Clock::now(), fifo_patience)) : std::nullopt;
  if (!text && errno == ETIMEDOUT)
    return fail(Errc::config, fmt::format("{}: this FIFO has no writer", name));
  if (!text)
    return fail(Errc::config, fmt::format("{} cannot be read: {}", name, ::strerrordesc_np(errno)));
  return from_elsewhere(*text, name, Errc::config);
}

constexpr std::string_view keeper_mark = "keeper.";

}  // namespace

Result<Handle> require_handle(const Options& o, const Store& s) {
  if (o.handle) {
    TRY(h, from_option(*o.handle));
    if (!of(h, s))
      return fail(Errc::usage,
                  fmt::format("--handle: it is a handle of {}.{}, but --backend is {}.{}", h.family,
                              h.recipe, s.traits->family, s.traits->recipe));
    return h;
  }
  // NOLINT(concurrency-mt-unsafe): no thread exists
  const char* inherited = std::getenv("DLOCK_HANDLE");
  auto h = Handle::parse(inherited ? inherited : "");
  if (h && of(*h, s)) return h;  // one of another backend is ignored
  return fail(Errc::usage,
              fmt::format("{}: --handle is missing, and DLOCK_HANDLE holds no handle of {}.{}",
                          info(o.verb).name, s.traits->family, s.traits->recipe));
}

std::string keeper_extra(const std::string& name) {
  return std::string(keeper_mark) + run::KeeperPlace::of_this_process(name).text();
}

Result<std::optional<run::KeeperAnswer>> ask_keeper_of(const Handle& handle,
                                                       std::string_view what) {
  if (!handle.extra.starts_with(keeper_mark)) return std::optional<run::KeeperAnswer>{};
  const auto keeper =
      run::KeeperPlace::parse(std::string_view(handle.extra).substr(keeper_mark.size()));
  TRY(answer, run::ask_keeper(keeper, what, handle.owner));
  return std::optional{answer};
}

}  // namespace dlock::cli
