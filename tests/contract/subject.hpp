// SPDX-License-Identifier: Apache-2.0
// The contract that every recipe fulfils: one suite, run once per recipe. A new recipe is a file like subjects_file.cpp.
// What a recipe's Traits do not claim is skipped, and the skip is reported (exit status 77, which ctest shows).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "core/backend.hpp"

namespace dlock::contract {

// A store that nobody else uses.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Backend> open(const Settings&) = 0;  // throws when it cannot
};

struct Subject {
  std::string name;  // "file/lease"
  const Traits* traits;
  std::function<std::unique_ptr<Store>()> make_store;  // throws Skip: its server is not there
  bool across_processes = true;                        // a forked child sees the same store
  bool forced_release_frees = true;                    // false: the key is free only once the holder has let go
  bool owner_across_backends = true;                   // the same owner is recognised by another Backend object
  bool remembers = true;                               // a key that nobody holds is still known, with its fence
  Duration shortest_ttl{400'000};                      // a lease that is short for this recipe, and long for a busy machine
};

void add(Subject);
const Subject& subject();  // the one that this run is about

struct Skip {
  std::string why;
};

// Opens a backend as the command line does.
std::unique_ptr<Backend> open_url(const std::string& url, const Settings&);

}  // namespace dlock::contract
