// SPDX-License-Identifier: Apache-2.0
#include "cli/options/values.hpp"
#include <csignal>
#include <optional>
#include "core/number.hpp"

namespace dlock::cli {
namespace {

std::optional<int> signal_by_name(std::string_view name) {
  for (int n = 1; n < __SIGRTMIN; ++n)
    if (const char* known = ::sigabbrev_np(n); known && name == known) return n;
  return std::nullopt;
}

std::optional<int> real_time_signal(std::string_view name) {
  const bool from_top = name.starts_with("RTMAX");
  if (!from_top && !name.starts_with("RTMIN")) return std::nullopt;
  name.remove_prefix(5);
  if (name.empty()) return from_top ? SIGRTMAX : SIGRTMIN;
  const auto offset = name.front() == (from_top ? '-' : '+')
                          ? dlock::parse_number<std::uint64_t>(name.substr(1))
                          : std::nullopt;
  if (!offset || *offset > static_cast<unsigned>(SIGRTMAX - SIGRTMIN)) return std::nullopt;
  return from_top ? SIGRTMAX - static_cast<int>(*offset) : SIGRTMIN + static_cast<int>(*offset);
}

// The C library reserves the signals between the standard signals and the real-time signals.
bool can_be_sent(std::uint64_t n) noexcept {
  const auto rtmin = static_cast<std::uint64_t>(SIGRTMIN),
             rtmax = static_cast<std::uint64_t>(SIGRTMAX);
  return (n >= 1 && n < __SIGRTMIN) || (n >= rtmin && n <= rtmax);
}

}  // namespace

Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  const auto n = dlock::parse_number<std::uint64_t>(text);
  if (n && *n >= least && *n <= most) return *n;
  return fail(Errc::usage, "{} is not a whole number from {} to {}", quoted(text), least, most);
}

Result<int> parse_signal(std::string_view text) {
  if (const auto n = dlock::parse_number<std::uint64_t>(text); n && can_be_sent(*n))
    return static_cast<int>(*n);
  const std::string_view name = text.starts_with("SIG") ? text.substr(3) : text;
  if (const auto n = signal_by_name(name)) return *n;
  if (const auto n = real_time_signal(name)) return *n;
  return fail(Errc::usage, "{} is not a signal: a name (TERM, SIGTERM, RTMIN+1) or a number (15)",
              quoted(text));
}

Result<std::size_t> parse_choice(std::string_view text, std::string_view choices) {
  std::string all;
  for (std::size_t i = 0;; ++i) {
    const std::string_view choice = choices.substr(0, choices.find('|'));
    const bool last = choice.size() == choices.size();
    if (text == choice) return i;
    all.append(i == 0 ? "" : last ? " nor " : ", ").append(choice);
    if (last) return fail(Errc::usage, "{} is neither {}", quoted(text), all);
    choices.remove_prefix(choice.size() + 1);
  }
}

Result<bool> parse_switch(std::string_view text) {
  for (const std::string_view yes : {"1", "true", "yes", "on"})
    if (text == yes) return true;
  for (const std::string_view no : {"0", "false", "no", "off"})
    if (text == no) return false;
  return fail(Errc::usage, "{} is neither 1, true, yes or on, nor 0, false, no or off",
              quoted(text));
}

}  // namespace dlock::cli
