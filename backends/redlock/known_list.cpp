// SPDX-License-Identifier: Apache-2.0
#include "redlock/known_list.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::redlock {
namespace {

constexpr char mark = '?';

// Characters that would be taken for separators, by dlock or in the record.
std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool as_it_is = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          std::string_view{".-_:[]"}.find(c) != std::string_view::npos;
    // host names are case-insensitive
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else if (as_it_is) out += c;
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::vector<std::string> master_names(const redis::Options& options) {
  std::vector<std::string> names;
  for (const auto& at : options.servers) names.push_back(escaped(at.text()));
  return names;
}

std::string list_text(const redis::Options& options) {
  auto names = master_names(options);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ",") + name;
  return fmt::format("{}/{}", text, options.database);
}

KnownList KnownList::parse(std::string_view recorded) {
  const bool marked = recorded.starts_with(mark);
  return {std::string{recorded.substr(marked)}, marked};
}

std::vector<std::string> KnownList::masters() const {
  std::vector<std::string> out;
  const std::string_view names = std::string_view{text}.substr(0, text.rfind('/'));
  for (std::size_t from = 0; from < names.size();) {
    const std::size_t to = std::min(names.find(',', from), names.size());
    out.emplace_back(names.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

}  // namespace dlock::redlock
