// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dlock::simulation::sql {

// GET_LOCK and its like. A session can take a name several times.
class Names {
 public:
  std::optional<std::uint64_t> owner(std::string_view name) const;
  bool take(std::uint64_t session, std::string_view name);  // false: another has it
  // Nothing: nobody has it. False: another.
  std::optional<bool> release(std::uint64_t session, std::string_view name);
  void release_all(std::uint64_t session);
  void clear() noexcept { taken_.clear(); }
  std::uint64_t hash() const;

 private:
  struct Taken {
    std::uint64_t by;
    unsigned times;
  };
  std::map<std::string, Taken, std::less<>> taken_;
};

}  // namespace dlock::simulation::sql
