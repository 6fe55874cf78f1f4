// SPDX-License-Identifier: Apache-2.0
#include "cli/trace.hpp"
#include <unistd.h>
#include <string>
#include <vector>
#include "core/text.hpp"
#include "run/lines.hpp"

namespace dlock::cli {

Result<Trace> Trace::open(std::string_view path) {
  if (path.empty()) return Trace(Fd());
  TRY(fd, run::open_lines("--trace", std::string(path)));
  return Trace(std::move(fd));
}

void Trace::write(std::string_view event, const Traced& what, std::string_view error) const {
  if (!fd_) return;
  const run::Traced line{event, what.request, what.key, what.owner};
  std::vector<run::Field> more;
  if (what.token) more.emplace_back("token", static_cast<std::int64_t>(*what.token));
  if (!error.empty()) more.emplace_back("err", printable(error));
  const std::string text = run::trace_line(line, more);
  // One write, so that lines of several processes do not mix; a failure to write the trace stops
  // nothing.
  [[maybe_unused]] const auto written = ::write(fd_.get(), text.data(), text.size());
}

}  // namespace dlock::cli
