// SPDX-License-Identifier: Apache-2.0
// A real store, empty but for what others keep there.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include "core/backend.hpp"

namespace dlock::test {

class Store {
 public:
  virtual ~Store() = default;
  virtual const BackendFactory& factory() const = 0;
  virtual std::string url(const std::string& prefix = "") const = 0;
  // Puts something there that is not the bench's: names close to its own, too.
  virtual void plant() = 0;
  // All that the store has, names and contents, in order. Tables and directories above the keys are not counted.
  virtual std::vector<std::string> everything() = 0;
};

std::unique_ptr<Store> make_store();

}  // namespace dlock::test
