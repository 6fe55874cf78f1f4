// SPDX-License-Identifier: Apache-2.0
// While one of these exists, every statement that this program sends to a server is also given to
// the simulated one (tests/simulation), and every answer must be the same: rows, counts, errors.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include "simulation/sql_server.hpp"

namespace dlock::test {

class Compared {
 public:
  Compared();
  ~Compared();
  Compared(const Compared&) = delete;
  Compared& operator=(const Compared&) = delete;

  std::uint64_t answers = 0, rows = 0;  // that were equal
  bool paused = false;                  // the server may lag behind

  // Called where the library is.
  void sends(std::uint64_t session, std::string_view sql);
  struct Expected {
    simulation::sql::Statement::Kind kind;
    simulation::sql::Reply reply;
  };
  std::map<std::uint64_t, std::deque<Expected>> expected;  // by session
  void ends(std::uint64_t session);

 private:
  simulation::sql::Server server_;
  std::map<std::uint64_t, simulation::sql::Session> sessions_;
};

}  // namespace dlock::test
