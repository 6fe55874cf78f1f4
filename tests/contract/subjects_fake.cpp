// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include "contract/subject.hpp"
#include "support/fake_backend.hpp"

namespace dlock::contract {
namespace {

class FakeStore final : public Store {
 public:
  explicit FakeStore(std::string items) : items_(std::move(items)) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return open_url("fake:" + std::to_string(number_) + items_, s);
  }

 private:
  inline static std::atomic<unsigned> next = 0;
  const unsigned number_ = ++next;
  std::string items_;
};

const bool fake_added = [] {
  add({.name = "fake/lease",
       .traits = &fake::factory.recipes[0],
       .make_store = [] { return std::make_unique<FakeStore>("?patience=300ms"); },
       .across_processes = false});
  add({.name = "fake/process",
       .traits = &fake::factory.recipes[1],
       .make_store = [] { return std::make_unique<FakeStore>("?recipe=process"); },
       .across_processes = false,
       .owner_across_backends = false});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
