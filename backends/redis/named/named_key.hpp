// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/key.hpp"

namespace dlock::redis {

// A lock under the name that other programs use, and the record that dlock keeps beside it:
// `dlock:fence:{<tag>}<lock>`, where the tag is the part of the name that chooses the slot of a
// cluster, so that both are on one server.
struct NamedKey {
  std::string lock, fence;

  NamedKey(std::string_view prefix, const Key& key) : NamedKey(std::string{prefix} + key.text()) {}
  explicit NamedKey(std::string lock_name);

  // false: the name has a '}' that no '{' precedes; such a lock cannot be in a cluster
  bool same_slot = true;

  static std::optional<std::string> lock_of(std::string_view fence);  // nothing: not such a record
  static std::string fences_below(std::string_view prefix);           // pattern for SCAN
};

}  // namespace dlock::redis
