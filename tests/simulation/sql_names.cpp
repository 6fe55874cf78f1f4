// SPDX-License-Identifier: Apache-2.0
#include "simulation/sql_names.hpp"
#include <algorithm>
#include "simulation/world.hpp"

namespace dlock::simulation::sql {

std::optional<std::uint64_t> Names::owner(std::string_view name) const {
  const auto found = taken_.find(name);
  return found == taken_.end() ? std::nullopt : std::optional{found->second.by};
}

bool Names::take(std::uint64_t session, std::string_view name) {
  Taken& t = taken_.try_emplace(std::string{name}, Taken{session, 0}).first->second;
  if (t.by != session) return false;
  ++t.times;
  return true;
}

std::optional<bool> Names::release(std::uint64_t session, std::string_view name) {
  const auto found = taken_.find(name);
  if (found == taken_.end()) return std::nullopt;
  if (found->second.by != session) return false;
  if (--found->second.times == 0) taken_.erase(found);
  return true;
}

void Names::release_all(std::uint64_t session) {
  std::erase_if(taken_, [&](const auto& t) { return t.second.by == session; });
}

std::uint64_t Names::hash() const {
  std::uint64_t h = 0;
  for (const auto& [name, taken] : taken_) h = mixed(h, hash_of(name) + taken.by);
  return h;
}

}  // namespace dlock::simulation::sql
