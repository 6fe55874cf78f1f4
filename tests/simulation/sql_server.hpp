// SPDX-License-Identifier: Apache-2.0
// What a MariaDB answers to the statements of the recipe `lease`: its two tables, named locks,
// sessions. A statement is carried out at one instant; whoever owns this decides when. Each
// statement that the recipe sends is known as a text with values in it (sql_server.cpp, at the
// end): one that was changed is refused (Unknown), never guessed. That a real server gives the same
// rows is shown by tests/stores/mysql/lease_model_test.cpp.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include "core/lock_state.hpp"
#include "simulation/sql_names.hpp"

namespace dlock::simulation::sql {

struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Cell = std::optional<std::string>;
using Row = std::vector<Cell>;

struct LockRow {
  std::string name;
  std::int64_t version, fence;
  std::string state;
  Micros updated;
  bool waiters = false;
  std::string wake{};
};
struct WaitRow {
  std::int64_t ticket;
  std::string name, owner, mode, permits;
  Micros live, since;
  std::string who;
};

struct Reply {
  unsigned error = 0;
  bool has_rows = false;
  std::vector<Row> rows{};
  std::uint64_t affected = 0, insert_id = 0;
  // GET_LOCK with a time, and another session has the name: there is no answer yet
  struct Wait {
    std::string name;
    double seconds = 0;
    Row before{};  // of its answer, in front of whether it was obtained
  };
  std::optional<Wait> waits{};
  std::uint64_t kills = 0;  // KILL QUERY: the statement of that session
};

struct Session {
  std::uint64_t number = 0;  // CONNECTION_ID()
  std::int64_t row_count = -1;
  std::int64_t row_wait = 50, silence = 28'800;  // seconds: the longest
};

class Server {
 public:
  // `now`: the server's clock, in microseconds. Throws Unknown.
  Reply execute(Session&, std::string_view statement, Micros now);
  void forget_rows();
  std::uint64_t hash() const;

  std::vector<LockRow> locks;
  Names names;

 private:
  friend class Run;
  bool made_ = false;  // the tables
  std::vector<WaitRow> waits_;
  std::int64_t tickets_ = 0;
};

}  // namespace dlock::simulation::sql
