// SPDX-License-Identifier: Apache-2.0
#include "redis/named/named_key.hpp"
#include <fmt/format.h>
#include "redis/wire/client.hpp"
#include "redis/wire/locator.hpp"

namespace dlock::redis {
namespace {

constexpr std::string_view fence_prefix = "dlock:fence:{";

}  // namespace

NamedKey::NamedKey(std::string lock_name) : lock(std::move(lock_name)) {
  const std::string_view tag = hashed_part(lock);
  same_slot = tag.find('}') == tag.npos;
  fence = fmt::format("{}{}}}{}", fence_prefix, same_slot ? tag : "", lock);
}

std::optional<std::string> NamedKey::lock_of(std::string_view fence) {
  const std::size_t end = fence.find('}');
  if (!fence.starts_with(fence_prefix) || end == fence.npos) return std::nullopt;
  return std::string{fence.substr(end + 1)};
}

std::string NamedKey::fences_below(std::string_view prefix) {
  return fmt::format("{}*}}{}*", fence_prefix, glob_escape(prefix));
}

}  // namespace dlock::redis
