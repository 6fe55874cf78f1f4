// SPDX-License-Identifier: Apache-2.0
// The lock directory that clients of recipe `lease` of `file` share, seen from outside: the ledger
// is told who holds by the state in force after each write. (There is no server: whatever else this
// inherits has no meaning.)
#pragma once
#include <map>
#include <string>
#include "simulation/file_system.hpp"
#include "simulation/ledger.hpp"
#include "simulation/network.hpp"

namespace dlock::simulation {

class LockFiles final : public Server {
 public:
  // `limit`: of all permits.
  LockFiles(World& world, Ledger& ledger, unsigned limit);

  bool empty() const override;  // no holder lives, by the state and the FIFOs

  void closed(const LinkPtr&) override {}
  void restart() override {}
  std::uint64_t hash() const override { return 0; }
  bool undoes(std::string_view) const override { return false; }
  std::string name_of(std::string_view) const override { return {}; }

 private:
  void serve(const LinkPtr&) override {}
  void written(const Node&);
  void fails(const Fault&);
  NodePtr state() const { return files_.find("/locks/k/state"); }

  Ledger& ledger_;
  const unsigned limit_;
  FileSystem files_;
  Nanos full_until_ = 0;
  ino_t seen_ = 0;                            // the state that was written last
  std::map<FencingToken, std::string> held_;  // in it
};

}  // namespace dlock::simulation
