// SPDX-License-Identifier: Apache-2.0
#include "cli/options/suggestions.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>
#include "cli/options/option_table.hpp"
#include "cli/options/verbs.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest_name = 32;  // no name is longer

// Counts the insertions, deletions, replacements and transpositions that turn `a` into `b` (optimal
// string alignment).
std::size_t mistakes(std::string_view a, std::string_view b) {
  std::array<std::array<std::size_t, longest_name + 1>, longest_name + 1> d{};
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

constexpr std::string_view no_exclusive = "no option at all (a lock without -s is exclusive)";

// Names that other programs use for our options.
constexpr struct {
  std::string_view typed, meant, shown;
} elsewhere_called[] = {
    {"h", "help", "--help"},
    {"x", "shared", no_exclusive},
    {"exclusive", "shared", no_exclusive},
    {"V", "help", "dlock --version"},
    {"version", "help", "dlock --version"},
    {"timeout", "max-run", "--wait or --max-run"},
    {"timeout", "wait", "--wait"},
    {"try", "wait", "--wait"},
    {"nb", "nonblock", "--nonblock"},
    {"name", "key", "--key"},
    {"lock", "key", "--key"},
    {"lease", "ttl", "--ttl"},
    {"format", "output", "--output"},
};

std::string_view called_here(std::string_view typed, Verb verb) {
  for (const auto& [name, meant, shown] : elsewhere_called)
    if (name == typed && find_option(meant, bit(verb))) return shown;
  return {};
}

// Two rows with the same name are one option if both have a value, or neither has. So --wait of run
// and --wait of release are one option; --hold of acquire and --hold=D of bench are two.
bool has_value(const Option& o) noexcept { return o.argument != nullptr; }

Error unknown(Verb verb, std::string_view shown, const Option* elsewhere, std::string_view hint) {
  const std::string_view name = info(verb).name;
  if (elsewhere) {
    std::string owners;
    for (const VerbInfo& v : verbs())
      if (const Option* own = find_option(elsewhere->name, bit(v.verb));
          own && has_value(*own) == has_value(*elsewhere))
        add_part(owners, v.name);
    return {Errc::usage, fmt::format("{} is an option of {}, not of {}", shown, owners, name)};
  }
  const std::string also = hint.empty() ? "" : fmt::format("; did you mean {}?", hint);
  return {Errc::usage, fmt::format("{}: unknown option {}{} (dlock {} --help lists them)", name,
                                   shown, also, name)};
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names) {
  if (wrong.size() < 2 || wrong.size() > longest_name) return {};
  const auto begun = [&](std::string_view name) { return name.starts_with(wrong); };
  if (std::ranges::count_if(names, begun) == 1) return *std::ranges::find_if(names, begun);

  std::string_view best;
  // A short word resembles every name, so it must have fewer mistakes.
  std::size_t fewest = std::clamp<std::size_t>((wrong.size() + 1) / 2, 2, 3);
  for (const std::string_view name : names) {
    if (name.size() > longest_name) continue;
    if (const std::size_t n = mistakes(wrong, name); n < fewest) {
      fewest = n;
      best = name;
    }
  }
  return best;
}

Error unknown_long(Verb verb, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Option& o : option_table())
    if (belongs(o, verb)) names.emplace_back(o.name);
  std::string hint(called_here(name, verb));
  if (const auto near = nearest(name, names); hint.empty() && !near.empty())
    hint = fmt::format("--{}", near);
  return unknown(verb, dlock::quoted(fmt::format("--{}", name)), find_option(name), hint);
}

Error unknown_letter(Verb verb, char letter) {
  const Option* elsewhere = nullptr;
  for (const Option& o : option_table())
    if (!elsewhere && letter && letter == o.letter) elsewhere = &o;
  return unknown(verb, dlock::quoted(fmt::format("-{}", letter)), elsewhere,
                 called_here({&letter, 1}, verb));
}

std::optional<Error> long_with_one_dash(Verb verb, std::string_view word) {
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return std::nullopt;
  const std::string_view name = word.substr(1, word.find('=') - 1);
  if (!find_option(name, bit(verb))) return std::nullopt;
  return unknown(verb, dlock::quoted(fmt::format("-{}", name)), nullptr, fmt::format("--{}", name));
}

std::string meant_variable(std::string_view name, Verb verb) {
  if ((name == "URL" || name == "HOST") && find_option("backend", bit(verb))) return "BACKEND";
  // Compare without the prefix. With the prefix, half of each short name would be the same.
  const std::size_t prefix = environment_name("").size();
  std::vector<std::string> twins;
  for (const Option& o : option_table())
    if (reads(o, verb)) twins.push_back(environment_name(o.name).substr(prefix));
  const std::vector<std::string_view> names(twins.begin(), twins.end());
  return std::string(nearest(name, names));
}

std::string proposed_url(std::string_view text) {
  constexpr struct {
    std::string_view port, scheme;
  } services[] = {{"6379", "redis"},
                  {"2181", "zookeeper"},
                  {"3306", "mysql"},
                  {"5432", "postgresql"},
                  {"2379", "etcd"}};

  const auto colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return {};
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  const auto of_a_name = [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; };
  const bool bracketed =
      host.front() == '[' && host.find_first_not_of("[]0123456789abcdefABCDEF:.") == host.npos;
  if (!bracketed && !std::ranges::all_of(host, of_a_name)) return {};
  for (const auto& [usual, scheme] : services)
    if (port == usual) return fmt::format("{}://{}", scheme, text);
  return {};
}

}  // namespace dlock::cli
