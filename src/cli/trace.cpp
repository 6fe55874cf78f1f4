// SPDX-License-Identifier: Apache-2.0
#include "cli/trace.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include "cli/values.hpp"
#include "core/key.hpp"

namespace dlock::cli {

Result<Trace> Trace::open(std::string_view path) {
  if (path.empty()) return Trace(Fd());
  const std::string name(path);
  Fd fd(::open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
  if (!fd) return fail(Errc::cannot_create, fmt::format("--trace {}: {}", quoted(path), ::strerrordesc_np(errno)));
  return Trace(std::move(fd));
}

void Trace::write(std::string_view event, const Traced& what, std::string_view error) const {
  if (!fd_) return;
  nlohmann::ordered_json line{{"t", Clock::now().time_since_epoch().count()}, {"pid", ::getpid()}, {"ev", event}};
  line["f"] = what.request;
  if (!what.key.empty()) line["key"] = what.key;
  if (what.token) line["token"] = *what.token;
  if (!what.owner.empty()) line["owner"] = what.owner;
  if (!error.empty()) line["err"] = printable(error);
  const std::string text = line.dump() + '\n';
  // One write, so that lines of several processes do not mix; a trace that cannot be written stops nothing.
  [[maybe_unused]] const auto written = ::write(fd_.get(), text.data(), text.size());
}

}  // namespace dlock::cli
