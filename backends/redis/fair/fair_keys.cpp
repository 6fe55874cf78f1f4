// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_keys.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

FairKeys::FairKeys(std::string_view prefix, std::string name)
    : name_(std::move(name)), base_(fmt::format("{}{{{}}}:", prefix, name_)) {}

std::optional<std::string> FairKeys::name_in(std::string_view found, std::string_view prefix) {
  if (!found.starts_with(prefix)) return std::nullopt;
  found.remove_prefix(prefix.size());
  const std::size_t end = found.find("}:");
  if (!found.starts_with('{') || end == found.npos || end < 2) return std::nullopt;
  return std::string{found.substr(1, end - 1)};
}

std::string FairKeys::pattern(std::string_view prefix) { return glob_escape(prefix) + "{*}:*"; }

std::string FairKeys::key_text(const std::string& name, std::string_view fence_record) {
  if (const auto key = key_from_store_name(name)) return key->text();
  const std::size_t space = fence_record.find(' ');
  if (space == fence_record.npos) return name;
  return percent_decode(fence_record.substr(space + 1)).value_or(name);
}

}  // namespace dlock::redis
