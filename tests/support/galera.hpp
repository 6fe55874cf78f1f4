// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include "support/mariadb_server.hpp"

namespace dlock::test {

// Three nodes on this machine; the second and third copy the first's data (rsync), one that comes back is sent what it missed.
class Galera {
 public:
  static bool installed();
  Galera();
  MariadbServer& operator[](std::size_t i) { return *nodes_[i]; }
  std::string url(const std::string& database, std::size_t first = 0) const;  // all nodes, that one first
  void wait_synced(std::size_t i);
  void come_back(std::size_t i);  // after kill()

 private:
  std::array<std::unique_ptr<MariadbServer>, 3> nodes_;
};

}  // namespace dlock::test
