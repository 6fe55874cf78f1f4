// SPDX-License-Identifier: Apache-2.0
#include "cli/options/old_names.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::cli {
namespace {

constexpr Verbs run = bit(Verb::run), taking = run | bit(Verb::acquire),
                jobs = run | bit(Verb::fence),
                stores = taking | bit(Verb::renew) | bit(Verb::release) | bit(Verb::check) |
                         bit(Verb::inspect) | bit(Verb::bench);

constexpr OldName table[] = {
    {"exclusive", 'x', taking, "leave it out, without -s a lock is exclusive", {}},
    {"no-foreground", 0, jobs, "use --foreground=no", "foreground"},
    {"status-fd", 0, run, "use --status FD", "status"},
    {"status-file", 0, run, "use --status FILE, ./3 for a file named 3", "status"},
    {"output", 0, run, "use -J", {}},
    {"show-config", 0, ~0U, "use dlock config", {}},
    {"debug-report", 0, ~0U, "use dlock config --report", {}},
    {"allow-short-ttl", 0, stores, "put ?short_ttl=yes into the URL of the backend", {}},
    {"fail-if", 0, bit(Verb::bench), "filter --output json with jq, as dlock-bench(1) shows", {}},
};

template <class Wanted>
const OldName* find(Wanted wanted) noexcept {
  const auto* const found = std::find_if(std::begin(table), std::end(table), wanted);
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

const OldName* find_old_name(std::string_view name, Verbs verbs) noexcept {
  return find([&](const OldName& o) { return o.name == name && (o.verbs & verbs); });
}
const OldName* find_old_letter(char letter, Verbs verbs) noexcept {
  return find(
      [&](const OldName& o) { return o.letter && o.letter == letter && (o.verbs & verbs); });
}
const OldName* find_old_variable(std::string_view name) noexcept {
  return find([&](const OldName& o) { return environment_name(o.name) == name; });
}

std::string no_longer(std::string_view shown, const OldName& o, Source source) {
  std::string now(o.now);
  if (source != Source::flag && !o.key.empty())
    now = fmt::format("use {}",
                      source == Source::config ? std::string(o.key) : environment_name(o.key));
  return fmt::format("{} no longer exists: {}", shown, now);
}

}  // namespace dlock::cli
