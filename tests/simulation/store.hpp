// SPDX-License-Identifier: Apache-2.0
// A Redis as the recipe `fair` sees it: RESP, the commands that it sends, and its scripts, answered
// from LockState. That the Lua and LockState decide alike is shown elsewhere
// (tests/stores/redis/fair_model_test.cpp).
#pragma once
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/lock_state.hpp"
#include "simulation/ledger.hpp"
#include "simulation/network.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

class Store final : public Server {
 public:
  // `confirms`: one in so many grants has no copy on a replica (WAIT answers 0); 0: all have.
  Store(World& world, Ledger& ledger, std::uint64_t unconfirmed_one_in)
      : Server(world), ledger_(ledger), unconfirmed_one_in_(unconfirmed_one_in) {}

  void closed(const LinkPtr&) override;
  void restart() override;  // with an empty memory; down for a moment
  void evict() override;    // the lock, sometimes the queue beside it, too
  void fail_over(Nanos lag) override;

  std::uint64_t hash() const override;
  bool empty() const override;

  bool undoes(std::string_view request) const override;
  std::string name_of(std::string_view request) const override;

 private:
  using Words = std::vector<std::string>;
  struct Key {
    LockState state;
    std::map<std::string, Micros> woken;  // lists with an element, until when
  };
  using Keys = std::map<std::string, Key>;
  static std::uint64_t hash(const Keys&);
  void forgets(const Keys& kept);
  void serve(const LinkPtr&) override;
  std::string execute(const LinkPtr&, const Words&);
  std::string script(const Words&);
  std::string info(std::string_view section) const;
  std::string blpop(const LinkPtr&, const Words&);
  std::string acquire(Key&, const std::string& lock, const Words&);
  std::string release(Key&, const std::string& lock, const Words&);
  std::string renew(Key&, const Words&);
  std::string cancel(Key&, const std::string& lock, const Words&);
  std::string inspect(const Key&) const;
  void invite(Key&, const std::string& lock, Micros claim);
  bool let_go(Key&, const Owner&, std::string_view token, std::string_view how);

  Ledger& ledger_;
  const std::uint64_t unconfirmed_one_in_;
  Nanos started_ = -100'000 * second;
  std::uint64_t run_ = 1, waits_ = 0;
  bool knows_scripts_ = false;
  Keys keys_;
  // After each script, for as long as a replica may lag.
  std::deque<std::pair<Nanos, Keys>> past_{{0, {}}};
  std::vector<LinkPtr> blocked_;
};

}  // namespace dlock::simulation
