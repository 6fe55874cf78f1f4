// SPDX-License-Identifier: Apache-2.0
// What a MariaDB answers to the statements of the recipe `lease`: tables, named locks, sessions.
// A statement is carried out at one instant; whoever owns this decides when. That a real server
// answers alike is shown elsewhere (tests/contract/mysql/lease_model_test.cpp).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "simulation/sql_syntax.hpp"

namespace dlock::simulation::sql {

using Row = std::vector<Value>;

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::size_t>> keys;  // the unique ones, as columns
  std::vector<Row> rows;                       // in the order of their insertion
  std::int64_t counted = 0;

  std::optional<std::size_t> find(std::string_view column) const noexcept;
};
using Tables = std::map<std::string, Table, std::less<>>;

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
  std::map<std::string, std::int64_t, std::less<>> settings{};
  std::map<std::string, Value, std::less<>> variables{};
  std::map<std::string, std::shared_ptr<const Statement>, std::less<>> prepared{};
};

// GET_LOCK and its like. A session can take a name several times.
class Names {
 public:
  std::optional<std::uint64_t> owner(std::string_view name) const;
  bool take(std::uint64_t session, const std::string& name);  // false: another has it
  // Nothing: nobody has it. False: another.
  std::optional<bool> release(std::uint64_t session, std::string_view name);
  void release_all(std::uint64_t session);
  void clear() noexcept { taken_.clear(); }
  // In the order of the names, with the session that has each.
  template <class Use>
  void each(Use use) const {
    for (const auto& [name, taken] : taken_) use(name, taken.by);
  }

 private:
  struct Taken {
    std::uint64_t by;
    unsigned times;
  };
  std::map<std::string, Taken, std::less<>> taken_;
};

class Server {
 public:
  // `now`: the server's clock, in microseconds. Throws Unknown.
  Reply execute(Session&, const Statement&, std::int64_t now);

  Tables tables;
  Names names;
};

}  // namespace dlock::simulation::sql
