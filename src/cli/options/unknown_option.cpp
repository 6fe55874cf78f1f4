// SPDX-License-Identifier: Apache-2.0
#include "cli/options/unknown_option.hpp"
#include <fmt/format.h>
#include <vector>
#include "cli/options/nearest.hpp"
#include "cli/options/old_names.hpp"
#include "cli/options/option_table.hpp"
#include "cli/options/verbs.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

// Names that other programs use.
constexpr struct {
  std::string_view typed, meant, shown;
} elsewhere_called[] = {
    {"h", "help", "--help"},
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

// Two rows of one name are one option, as --wait of run and of release, if both take a value or
// neither does: --hold of acquire and --hold=D of bench are two.
bool takes_value(const Option& o) noexcept { return o.argument != nullptr; }

Error unknown(Verb verb, std::string_view shown, const Option* elsewhere, std::string_view hint) {
  const std::string_view name = info(verb).name;
  if (elsewhere) {
    std::string owners;
    for (const VerbInfo& v : verbs())
      if (const Option* own = find_option(elsewhere->name, bit(v.verb));
          own && takes_value(*own) == takes_value(*elsewhere))
        owners += fmt::format("{}{}", owners.empty() ? "" : ", ", v.name);
    return {Errc::usage, fmt::format("{} is an option of {}, not of {}", shown, owners, name)};
  }
  const std::string also = hint.empty() ? "" : fmt::format("; did you mean {}?", hint);
  return {Errc::usage, fmt::format("{}: unknown option {}{} (dlock {} --help lists them)", name,
                                   shown, also, name)};
}

Error gone(Verb verb, std::string_view shown, const OldName& old) {
  return {Errc::usage, fmt::format("{}: {}", info(verb).name, no_longer(shown, old, Source::flag))};
}

}  // namespace

Error unknown_long(Verb verb, std::string_view name) {
  if (const OldName* old = find_old_name(name, bit(verb)))
    return gone(verb, fmt::format("--{}", name), *old);
  std::vector<std::string_view> names;
  for (const Option& o : option_table())
    if (belongs(o, verb)) names.emplace_back(o.name);
  std::string hint(called_here(name, verb));
  if (const auto near = nearest(name, names); hint.empty() && !near.empty())
    hint = fmt::format("--{}", near);
  return unknown(verb, dlock::quoted(fmt::format("--{}", name)), find_option(name), hint);
}

Error unknown_letter(Verb verb, char letter) {
  if (const OldName* old = find_old_letter(letter, bit(verb)))
    return gone(verb, fmt::format("-{}", letter), *old);
  const Option* elsewhere = nullptr;
  for (const Option& o : option_table())
    if (!elsewhere && letter && letter == o.letter) elsewhere = &o;
  return unknown(verb, dlock::quoted(fmt::format("-{}", letter)), elsewhere,
                 called_here({&letter, 1}, verb));
}

bool is_long_with_one_dash(Verb verb, std::string_view word) noexcept {
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return false;
  return find_option(word.substr(1, word.find('=') - 1), bit(verb)) != nullptr;
}

Error long_with_one_dash(Verb verb, std::string_view word) {
  const std::string_view name = word.substr(1, word.find('=') - 1);
  return unknown(verb, dlock::quoted(fmt::format("-{}", name)), nullptr, fmt::format("--{}", name));
}

}  // namespace dlock::cli
