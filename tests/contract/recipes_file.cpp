// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "file/factory.hpp"
#include "support/temp_dir.hpp"

namespace dlock::contract {
namespace {

std::unique_ptr<Store> in_directory(const Traits& traits) {
  const auto directory = std::make_shared<test::TempDir>();
  return store_at("file://" + directory->path(), file::factory, traits, directory);
}

// Its slots have room for one waiter: the others of each case are in the tail (tail.hpp).
class ShortSlots final : public Store {
 public:
  std::unique_ptr<Backend> open(const Settings& s) override {
    file::Tuning tuning;
    tuning.queue = {.waiters = 1, .gone = 1, .free = 0};
    return file::open_lease(dir_.path(), s, tuning);
  }

 private:
  test::TempDir dir_;
};

const bool file_added = [] {
  add({.name = "file/lease",
       .traits = &file::recipes[0],
       .make_store = [] { return in_directory(file::recipes[0]); },
       .costs = {.free = 2, .queued = 3, .wakes = 1.1}});
  add({.name = "file/lease-tail",
       .traits = &file::recipes[0],
       .make_store = [] { return std::make_unique<ShortSlots>(); },
       .costs = {.wakes = 1.1}});
  add({.name = "file/flock",
       .traits = &file::recipes[1],
       .make_store = [] { return in_directory(file::recipes[1]); },
       .forced_release_frees = false,
       .owner_across_backends = false});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
