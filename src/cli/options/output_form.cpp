// SPDX-License-Identifier: Apache-2.0
#include "cli/options/output_form.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <span>
#include "cli/options/verbs.hpp"
#include "core/key.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

constexpr std::string_view names[] = {"text", "json", "env", "csv"};

std::string_view name_of(Output form) noexcept { return names[static_cast<std::size_t>(form)]; }

std::span<const Output> forms_of(Verb v) noexcept {
  static constexpr Output usual[] = {Output::text, Output::json},
                          of_acquire[] = {Output::text, Output::json, Output::env},
                          of_inspect[] = {Output::text, Output::json, Output::csv},
                          of_bench[] = {Output::text, Output::json, Output::csv};
  switch (v) {
    case Verb::acquire: return of_acquire;
    case Verb::inspect: return of_inspect;
    case Verb::bench: return of_bench;
    default: return usual;
  }
}

// "neither text, json nor env"
std::string is_none(std::string_view value, Verb v) {
  const auto forms = forms_of(v);
  std::string list;
  for (const Output& form : forms)
    list += fmt::format("{}{}",
                        &form == forms.data()    ? ""
                        : &form == &forms.back() ? " nor "
                                                 : ", ",
                        name_of(form));
  return fmt::format("{} is neither {}", quoted(value), list);
}

// How the command line named the form; empty: it did not.
std::string flag_of(const Options& o, Output form) {
  const std::string name(name_of(form));
  if (given_by_flag(o, name)) return "--" + name;
  return given_by_flag(o, "output") ? "--output " + name : "";
}

}  // namespace

Result<void> set_output(Options& o, std::string_view value) {
  const auto at = std::find(std::begin(names), std::end(names), value);
  if (at == std::end(names)) return fail(Errc::usage, is_none(value, o.verb));
  const auto form = static_cast<Output>(at - std::begin(names));
  const auto forms = forms_of(o.verb);
  const bool has = std::find(forms.begin(), forms.end(), form) != forms.end();
  o.output = has ? form : Output::text;
  o.foreign_output = has ? std::string_view() : value;
  return {};
}

Result<void> choose_output(Options& o) {
  if (!o.foreign_output.empty() && given_by_flag(o, "output"))
    return fail(Errc::usage, fmt::format("--output: {}", is_none(o.foreign_output, o.verb)));
  for (const auto& [wanted, form] : {std::pair{o.json, Output::json}, {o.csv, Output::csv}}) {
    if (!wanted) continue;
    const bool other = form == Output::json ? o.csv : o.json;
    if (other || (given_by_flag(o, "output") && o.output != form))
      return fail(Errc::usage,
                  fmt::format("{}: --{} and --{} contradict each other", info(o.verb).name,
                              name_of(form), other ? "csv" : "output"));
    o.output = form;
  }
  o.json = o.output == Output::json;
  o.csv = o.output == Output::csv;
  return {};
}

Result<void> form_apart(const Options& o, Output form,
                        std::initializer_list<std::string_view> others) {
  const std::string flag = o.output == form ? flag_of(o, form) : "";
  if (flag.empty()) return {};
  for (const std::string_view other : others)
    if (given_by_flag(o, other))
      return fail(Errc::usage, fmt::format("{}: {} and --{} contradict each other",
                                           info(o.verb).name, flag, other));
  return {};
}

}  // namespace dlock::cli
