// SPDX-License-Identifier: Apache-2.0
// The SQL that the recipe `lease` of MySQL sends, as trees. Nothing here knows a statement of the
// recipe: one that uses other words is refused (Unknown), never guessed.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::simulation::sql {

struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Value {
  enum class Kind { null, number, text } kind = Kind::null;
  std::int64_t number = 0;
  std::string text;

  static Value of(std::int64_t n) { return {Kind::number, n, {}}; }
  static Value of(std::string s) { return {Kind::text, 0, std::move(s)}; }
  bool null() const noexcept { return kind == Kind::null; }
  std::string shown() const { return kind == Kind::number ? std::to_string(number) : text; }
  std::int64_t as_number() const noexcept;
  bool yes() const noexcept { return !null() && as_number() != 0; }
};

struct Select;
struct Expr {
  enum class Op { value, column, parameter, variable, call, exists, subquery } op = Op::value;
  std::string name;   // of a column, variable or function; operators are functions, as "<="
  std::string table;  // of a column; may be empty
  Value value;
  std::size_t number = 0;  // of a parameter
  std::vector<Expr> of;
  std::shared_ptr<const Select> select;
};

struct Source {
  std::string table, alias;
};
struct Select {
  std::vector<Expr> items;
  std::vector<Source> from;  // of a join, all
  std::optional<Expr> on, where, order, offset;
  bool descending = false, limited = false;  // to one row
};

struct Column {
  std::string name;
  Value usual;
  bool counts = false;  // AUTO_INCREMENT
};

struct Assignment {
  std::string name;
  Expr value;
};

struct Statement {
  enum class Kind {
    select,
    update,
    insert,
    erase,
    run,
    set_session,
    set_variable,
    create,
    show_variables,
    prepare,
    execute,
    kill_query
  } kind = Kind::select;
  Select select;                        // of an update or a deletion its table and condition
  std::vector<Assignment> assignments;  // of an update, an insert, a SET
  std::vector<Assignment> on_duplicate;
  bool ignore = false;
  std::vector<Expr> values;  // of DO, EXECUTE, and the names of SHOW VARIABLES
  std::string name;          // of a prepared statement, or of a table
  std::shared_ptr<const Statement> prepared;
  std::vector<Column> columns;                 // of a new table
  std::vector<std::vector<std::string>> keys;  // its unique ones
};

std::vector<Statement> parse(std::string_view text);

}  // namespace dlock::simulation::sql
