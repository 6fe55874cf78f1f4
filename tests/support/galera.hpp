// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include "support/mariadb_server.hpp"

namespace dlock::test {

// Three nodes on this machine; the second and third copy the first's data (rsync), a node that
// comes back gets the changes that it missed.
class Galera {
 public:
  static bool installed();
  Galera();
  MariadbServer& operator[](std::size_t i) { return *nodes_[i]; }
  // all nodes, `first` first
  std::string url(const std::string& database, std::size_t first = 0) const;
  void wait_synced(std::size_t i);
  void come_back(std::size_t i);  // after kill()

 private:
  std::array<std::unique_ptr<MariadbServer>, 3> nodes_;
};

}  // namespace dlock::test
