// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/info.hpp"
#include <algorithm>
#include "core/number.hpp"

namespace dlock::redis {
namespace {

std::int64_t number(std::string_view text) noexcept {
  return take_number<std::int64_t>(text).value_or(0);
}

}  // namespace

std::string_view info_field(std::string_view info, std::string_view field) noexcept {
  for (std::size_t at = info.find(field); at != info.npos; at = info.find(field, at + 1)) {
    const std::size_t colon = at + field.size();
    if ((at != 0 && info[at - 1] != '\n') || colon >= info.size() || info[colon] != ':') continue;
    const std::string_view value = info.substr(colon + 1);
    return value.substr(0, value.find_first_of("\r\n"));
  }
  return {};
}

std::int64_t info_number(std::string_view info, std::string_view field) noexcept {
  return number(info_field(info, field));
}

unsigned info_version(std::string_view info) noexcept {  // "7.0.15"
  const std::string_view text = info_field(info, "redis_version");
  const std::size_t dot = text.find('.');
  if (dot == text.npos) return 0;
  const auto in_range = [](std::int64_t n) {
    return static_cast<unsigned>(std::clamp<std::int64_t>(n, 0, 99));
  };
  return in_range(number(text.substr(0, dot))) * 100 + in_range(number(text.substr(dot + 1)));
}

}  // namespace dlock::redis
