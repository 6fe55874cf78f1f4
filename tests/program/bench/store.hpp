// SPDX-License-Identifier: Apache-2.0
// A real store with some data of other programs.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include "core/factory.hpp"

namespace dlock::test {

class Store {
 public:
  virtual ~Store() = default;
  virtual const BackendFactory& factory() const = 0;
  virtual std::string url(const std::string& prefix = "") const = 0;
  // Stores data of other programs, some of it under names similar to the bench's.
  virtual void plant() = 0;
  // Everything in the store, names and contents, in order. Tables and directories above the keys do
  // not count.
  virtual std::vector<std::string> everything() = 0;
};

std::unique_ptr<Store> make_store();

}  // namespace dlock::test
