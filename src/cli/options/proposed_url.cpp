// SPDX-License-Identifier: Apache-2.0
#include "cli/options/proposed_url.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::cli {

std::string proposed_url(std::string_view text) {
  constexpr struct {
    std::string_view port, scheme;
  } services[] = {{"6379", "redis"}, {"2181", "zookeeper"}, {"3306", "mysql"}};

  const auto colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return {};
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  const auto of_a_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-';
  };
  const bool bracketed =
      host.front() == '[' && host.find_first_not_of("[]0123456789abcdefABCDEF:.") == host.npos;
  if (!bracketed && !std::all_of(host.begin(), host.end(), of_a_name)) return {};
  for (const auto& [usual, scheme] : services)
    if (port == usual) return fmt::format("{}://{}", scheme, text);
  return {};
}

}  // namespace dlock::cli
