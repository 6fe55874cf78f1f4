// SPDX-License-Identifier: Apache-2.0
#include "store/last_run.hpp"
#include <fmt/format.h>
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock {

std::string LastRun::text(char between) const {
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}{0}{5}", between, token, ended, end.text(), started,
                     who.encode());
}

std::optional<LastRun> LastRun::parse(std::string_view text, char between) {
  const auto token = parse_number<std::uint64_t>(next_part(text, between));
  const auto ended = parse_number<std::int64_t>(next_part(text, between));
  const auto end = RunEnd::parse(next_part(text, between));
  const auto started = parse_number<std::int64_t>(next_part(text, between));
  if (!token || !ended || !end || !started || *ended < 0 || *started < 0) return std::nullopt;
  return LastRun{*token, *ended, *end, *started, Identity::decode(text)};
}

}  // namespace dlock
