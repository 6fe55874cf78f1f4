// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "file/factory.hpp"
#include "support/temp_dir.hpp"

namespace dlock::contract {
namespace {

class FileStore final : public Store {
 public:
  explicit FileStore(std::string items) : items_(std::move(items)) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return open_url("file://" + dir_.path() + items_, s);
  }

 private:
  test::TempDir dir_;
  std::string items_;
};

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
  add({.name = "file/lease", .traits = &file::recipes[0], .make_store = [] {
         return std::make_unique<FileStore>("");
       }});
  add({.name = "file/lease-tail", .traits = &file::recipes[0], .make_store = [] {
         return std::make_unique<ShortSlots>();
       }});
  add({.name = "file/flock",
       .traits = &file::recipes[1],
       .make_store = [] { return std::make_unique<FileStore>("?recipe=flock"); },
       .forced_release_frees = false,
       .owner_across_backends = false});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
