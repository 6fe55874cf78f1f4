// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include "contract/subject.hpp"
#include "support/fake_backend.hpp"

namespace dlock::contract {
namespace {

std::unique_ptr<Store> next_store(const Traits& traits, const char* items = "") {
  static std::atomic<unsigned> number{0};
  return store_at("fake:" + std::to_string(++number) + items, fake::factory, traits);
}

const bool fake_added = [] {
  add({.name = "fake/lease",
       .traits = &fake::factory.recipes[0],
       .make_store = [] { return next_store(fake::factory.recipes[0], "?patience=10s"); },
       .across_processes = false});
  add({.name = "fake/process",
       .traits = &fake::factory.recipes[1],
       .make_store = [] { return next_store(fake::factory.recipes[1]); },
       .across_processes = false,
       .owner_across_backends = false});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
