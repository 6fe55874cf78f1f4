// SPDX-License-Identifier: Apache-2.0
// What happens while a job holds a lock and others wait for it.
#pragma once
#include <chrono>
#include <string_view>
#include <vector>
#include "cell.hpp"
#include "support/stores.hpp"

namespace dlock::test {

struct Scene {
  Store& store;
  std::vector<std::unique_ptr<Cell>>& cells;
  std::chrono::seconds three;  // times the ttl
};

struct Schedule {
  std::string_view name;
  Cell::Excuses excuses;
  void (*play)(const Scene&);
};

// The program ends where there is none of this name.
const Schedule& schedule(std::string_view name);

}  // namespace dlock::test
