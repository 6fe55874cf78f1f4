// SPDX-License-Identifier: Apache-2.0
// The contract of every recipe: one suite, run once per recipe. A new recipe is a file like
// recipes_file.cpp. Cases for features that a recipe's Traits do not claim are skipped, and the
// skip is reported (exit status 77, which ctest shows).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "store/factory.hpp"

namespace dlock::contract {

// A store of this test's own.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Backend> open(const Settings&) = 0;  // throws when it cannot
  // Where it has one server: its port, and the same by another port, as that of a proxy.
  virtual std::uint16_t port() const { return 0; }
  virtual std::unique_ptr<Backend> open_at(std::uint16_t, const Settings& s) { return open(s); }
};

// What a recipe may cost its store (costs.cpp); 0: nobody promises anything.
struct Costs {
  double free = 0;          // requests that take a free key and give it back
  double renewal = 0;       // requests of a renewal
  double queued = 0;        // requests of a grant behind others and its release, at most
  double wakes = 0;         // wake-ups of all waiters for a grant, at most
  double permit_wakes = 0;  // the same for a permit
};

// What only such a request contains, once its server knows all scripts (messages.cpp); empty:
// no case needs it.
struct Messages {
  std::vector<std::string> grants{};  // of each request that takes a free key
  std::string renewal{}, release{}, revocation{};
};

struct Subject {
  std::string name;  // "file/lease"
  const Traits* traits;
  std::function<std::unique_ptr<Store>()> make_store;  // throws Skip without its server
  // false: the key is free only once the holder has released
  bool forced_release_frees = true;
  // the same owner is recognised by another Backend object
  bool owner_across_backends = true;
  // a key without holder is still known, with its fence
  bool remembers = true;
  // a lease that has ended is shown until the key is taken
  bool ended_stay = true;
  // a place of a process that is gone stays for as long as its ttl
  bool place_lasts = false;
  // leases end by a clock of the servers' own, which pass() cannot move
  bool real_time = false;
  // of a lease that ends in real time
  Duration shortest_ttl{400'000};
  // a try on a busy machine may end without an answer; a poll is then repeated
  bool tries_go_unanswered = false;
  Costs costs{};
  Messages messages{};
};

void add(Subject);
const Subject& subject();  // the subject of this run

struct Skip {
  std::string why;
};
// Skips if `missing` is not installed; nullptr: nothing is missing.
void need_server(const char* missing);

// Of a store on a server that all share.
std::string fresh_prefix();  // "prefix=c1:"
// The store with this URL; what must live as long: its server, its directory.
std::unique_ptr<Store> store_at(std::string url, const BackendFactory&, const Traits&,
                                std::shared_ptr<const void> lives_as_long = nullptr);

}  // namespace dlock::contract
