// SPDX-License-Identifier: Apache-2.0
#include "simulation/sql_text.hpp"
#include <algorithm>
#include <optional>

namespace dlock::simulation::sql {
namespace {

constexpr std::string_view by_name =
    "IF(w.live=0,COALESCE(IS_USED_LOCK(CONCAT(IF(w.mode='X','dl:','dq:'),w.owner)),"
    "CONNECTION_ID())<>CONNECTION_ID(),w.live>NOW)";
constexpr std::string_view by_time = "w.live>NOW";

bool skip(std::string_view& text, std::string_view word) {
  const bool there = text.starts_with(word);
  if (there) text.remove_prefix(word.size());
  return there;
}

unsigned nibble(char c) noexcept {
  return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
}

// x'..', '..' or digits.
std::optional<std::string> take_literal(std::string_view& text) {
  const bool hex = skip(text, "x'");
  if (!hex && !skip(text, "'")) {
    const std::string digits{text.substr(0, text.find_first_not_of("0123456789."))};
    text.remove_prefix(digits.size());
    return digits.empty() ? std::nullopt : std::optional{digits};
  }
  const std::string_view inside = text.substr(0, text.find('\''));
  text.remove_prefix(std::min(inside.size() + 1, text.size()));
  if (!hex) return std::string{inside};
  std::string bytes;
  for (std::size_t i = 0; i + 1 < inside.size(); i += 2)
    bytes += static_cast<char>(nibble(inside[i]) << 4U | nibble(inside[i + 1]));
  return bytes;
}

bool take_one_name(std::string_view& text) {
  for (const std::string_view function : {have, get, release}) {
    std::string_view rest = text;
    Values unused;
    (void)skip(rest, ",");
    if (!take(rest, function, unused)) continue;
    text = rest;
    return true;
  }
  return false;
}

}  // namespace

bool take(std::string_view& text, std::string_view pattern, Values& values) {
  while (!pattern.empty()) {
    if (skip(pattern, "{}")) {
      auto value = take_literal(text);
      if (!value) return false;
      values.push_back(std::move(*value));
    } else if (skip(pattern, "{names}")) {
      const std::string_view all = text;
      while (take_one_name(text)) {}
      values.emplace_back(all.substr(0, all.size() - text.size()));
    } else if (skip(pattern, "{alive}")) {
      if (!skip(text, by_name) && !skip(text, by_time)) return false;
    } else {
      const std::string_view plain = pattern.substr(0, pattern.find('{'));
      if (!skip(text, plain)) return false;
      pattern.remove_prefix(plain.size());
    }
  }
  return true;
}

std::vector<std::string> statements_in(std::string_view request) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (const char c : request) {
    quoted ^= c == '\'';
    if (c == ';' && !quoted) all.emplace_back();
    else if (c != '\n' || !all.back().empty()) all.back() += c;
  }
  if (all.back().empty()) all.pop_back();
  return all;
}

}  // namespace dlock::simulation::sql
