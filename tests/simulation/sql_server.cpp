// SPDX-License-Identifier: Apache-2.0
#include "simulation/sql_server.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace dlock::simulation::sql {
namespace {

constexpr unsigned no_such_table = 1146, not_prepared = 1243;

struct Scope {
  const std::string* alias;
  const Table* table;
  const Row* row;
  const Scope* outer;
};

struct MissingTable {};

// Runs one statement.
class Run {
 public:
  Run(Server& server, Session& session, std::int64_t now)
      : server_(server), session_(session), now_(now) {}

  Reply statement(const Statement& s) {
    using Kind = Statement::Kind;
    Reply reply;
    switch (s.kind) {
      case Kind::select:
        if (auto wait = must_wait(s.select)) {
          reply.waits = std::move(wait);
          return reply;
        }
        reply.has_rows = true;
        reply.rows = rows_of(s.select, nullptr, true);
        break;
      case Kind::update: update(s, reply); break;
      case Kind::insert: insert(s, reply); break;
      case Kind::erase: erase(s, reply); break;
      case Kind::run:
        for (const Expr& e : s.values) (void)value(e, nullptr);
        break;
      case Kind::set_session:
        for (const auto& [name, e] : s.assignments)
          session_.settings[name] = value(e, nullptr).as_number();
        break;
      case Kind::set_variable:
        session_.variables[s.assignments[0].name] = value(s.assignments[0].value, nullptr);
        break;
      case Kind::create: create(s); break;
      case Kind::show_variables: show_variables(s, reply); break;
      case Kind::prepare: session_.prepared[s.name] = s.prepared; break;
      case Kind::execute: {
        const auto found = session_.prepared.find(s.name);
        if (found == session_.prepared.end()) {
          reply.error = not_prepared;
          return reply;
        }
        for (const Expr& e : s.values) parameters_.push_back(value(e, nullptr));
        return statement(*found->second);
      }
      case Kind::kill_query:
        reply.kills = static_cast<std::uint64_t>(value(s.values[0], nullptr).as_number());
        break;
    }
    reply.insert_id = insert_id_;
    session_.row_count = reply.has_rows ? -1 : static_cast<std::int64_t>(reply.affected);
    return reply;
  }

 private:
  Table& table(const std::string& name) {
    const auto found = server_.tables.find(name);
    if (found == server_.tables.end()) throw MissingTable{};
    return found->second;
  }

  // ---- statements ----

  // The one statement that waits: SELECT ..., GET_LOCK(name, seconds).
  std::optional<Reply::Wait> must_wait(const Select& s) {
    const Expr& last = s.items.back();
    if (!s.from.empty() || last.name != "GET_LOCK") return {};
    const std::string name = value(last.of[0], nullptr).shown();
    const std::string seconds = value(last.of[1], nullptr).shown();
    const auto owner = server_.names.owner(name);
    if (!owner || *owner == session_.number || seconds == "0") return {};
    Reply::Wait wait{name, std::stod(seconds)};
    for (std::size_t i = 0; i + 1 < s.items.size(); ++i)
      wait.before.push_back(value(s.items[i], nullptr));
    return wait;
  }

  void update(const Statement& s, Reply& reply) {
    const Source& source = s.select.from[0];
    Table& t = table(source.table);
    for (Row& row : t.rows) {
      const Scope scope{&source.alias, &t, &row, nullptr};
      if (s.select.where && !value(*s.select.where, &scope).yes()) continue;
      assign(t, row, s.assignments, scope);
      ++reply.affected;
    }
  }

  // From left to right; what follows sees the new values.
  void assign(const Table& t, Row& row, const std::vector<Assignment>& all, const Scope& scope) {
    for (const auto& [name, e] : all) row[column(t, name)] = value(e, &scope);
  }

  void insert(const Statement& s, Reply& reply) {
    Table& t = table(s.select.from[0].table);
    Row made;
    std::size_t counter = t.columns.size();
    for (const Column& c : t.columns) {
      if (c.counts) counter = made.size();
      made.push_back(c.usual);
    }
    for (const auto& [name, e] : s.assignments) made[column(t, name)] = value(e, nullptr);
    if (counter < t.columns.size()) made[counter] = Value::of(++t.counted);
    Row* const there = conflicting(t, made);
    if (!there) {
      if (counter < t.columns.size()) insert_id_ = static_cast<std::uint64_t>(t.counted);
      t.rows.push_back(std::move(made));
      reply.affected = 1;
    } else if (!s.on_duplicate.empty()) {
      inserting_ = &made;
      inserting_into_ = &t;
      const std::string alias;
      const Row before = *there;
      assign(t, *there, s.on_duplicate, {&alias, &t, there, nullptr});
      reply.affected = same(before, *there) ? 1 : 2;
    } else if (!s.ignore) {
      reply.error = 1062;
    }
  }

  static bool same(const Row& a, const Row& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value& x, const Value& y) {
      return x.null() == y.null() && x.shown() == y.shown();
    });
  }

  static Row* conflicting(Table& t, const Row& made) {
    for (Row& row : t.rows)
      for (const auto& key : t.keys)
        if (std::all_of(key.begin(), key.end(),
                        [&](std::size_t c) { return row[c].shown() == made[c].shown(); }))
          return &row;
    return nullptr;
  }

  void erase(const Statement& s, Reply& reply) {
    const Source& source = s.select.from[0];
    Table& t = table(source.table);
    reply.affected = std::erase_if(t.rows, [&](const Row& row) {
      const Scope scope{&source.alias, &t, &row, nullptr};
      return !s.select.where || value(*s.select.where, &scope).yes();
    });
  }

  void create(const Statement& s) {
    if (server_.tables.contains(s.name)) return;
    Table& t = server_.tables[s.name];
    t.columns = s.columns;
    for (const auto& key : s.keys) {
      auto& columns = t.keys.emplace_back();
      for (const std::string& name : key) columns.push_back(column(t, name));
    }
  }

  void show_variables(const Statement& s, Reply& reply) {
    const std::array<std::pair<std::string_view, std::string>, 8> known{
        {{"version", "10.11.14-MariaDB"},
         {"hostname", "simulated"},
         {"port", "3306"},
         {"read_only", "OFF"},
         {"log_bin", "OFF"},
         {"pseudo_thread_id", std::to_string(session_.number)},
         {"sql_select_limit", std::to_string(UINT64_MAX)},
         {"timestamp", fmt::format("{}.{:06}", now_ / 1'000'000, now_ % 1'000'000)}}};
    reply.has_rows = true;
    for (const Expr& e : s.values)
      for (const auto& [name, shown] : known)
        if (e.value.text == name) reply.rows.push_back({e.value, Value::of(shown)});
  }

  // ---- queries ----

  std::vector<Row> rows_of(const Select& s, const Scope* outer, bool top = false) {
    if (s.from.empty()) {
      Row row;
      for (const Expr& e : s.items) row.push_back(value(e, outer));
      return {row};
    }
    if (s.from.size() > 2 || (top && s.offset)) throw Unknown("a join of more than two tables");
    std::vector<std::pair<const Row*, const Row*>> found;
    const Table& first = table(s.from[0].table);
    static const std::vector<Row> nothing{{}};
    const Table* const second = s.from.size() == 2 ? &table(s.from[1].table) : nullptr;
    const auto with = [&](const Row& a, const Row& b, const auto& then) {
      const Scope one{&s.from[0].alias, &first, &a, outer};
      if (!second) return then(one);
      return then(Scope{&s.from[1].alias, second, &b, &one});
    };
    for (const Row& a : first.rows)
      for (const Row& b : second ? second->rows : nothing)
        if (with(a, b, [&](const Scope& scope) {
              return (!s.on || value(*s.on, &scope).yes()) &&
                     (!s.where || value(*s.where, &scope).yes());
            }))
          found.emplace_back(&a, &b);
    if (s.order) {
      std::vector<std::pair<Value, std::size_t>> keys;
      for (const auto& [a, b] : found)
        keys.emplace_back(with(*a, *b, [&](const Scope& scope) { return value(*s.order, &scope); }),
                          keys.size());
      std::stable_sort(keys.begin(), keys.end(), [&](const auto& x, const auto& y) {
        const int order = compare(x.first, y.first);
        return s.descending ? order > 0 : order < 0;
      });
      std::vector<std::pair<const Row*, const Row*>> sorted;
      for (const auto& key : keys) sorted.push_back(found[key.second]);
      found = std::move(sorted);
    }
    if (is_aggregate(s.items[0])) return {aggregated(s, found, with)};
    if (s.limited) {
      const auto skip =
          std::min(found.size(),
                   s.offset ? static_cast<std::size_t>(value(*s.offset, outer).as_number()) : 0);
      found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(skip));
      if (found.size() > 1) found.resize(1);
    }
    std::vector<Row> out;
    for (const auto& [a, b] : found)
      out.push_back(with(*a, *b, [&](const Scope& scope) {
        Row row;
        for (const Expr& e : s.items) row.push_back(value(e, &scope));
        return row;
      }));
    return out;
  }

  static bool is_aggregate(const Expr& e) {
    return e.op == Expr::Op::call && (e.name == "COUNT" || e.name == "MAX");
  }

  template <class Found, class With>
  Row aggregated(const Select& s, const Found& found, const With& with) {
    Row out;
    for (const Expr& e : s.items) {
      Value best;
      if (e.name == "COUNT") best = Value::of(static_cast<std::int64_t>(found.size()));
      else
        for (const auto& [a, b] : found) {
          Value v = with(*a, *b, [&](const Scope& scope) { return value(e.of[0], &scope); });
          if (best.null() || (!v.null() && compare(v, best) > 0)) best = std::move(v);
        }
      out.push_back(std::move(best));
    }
    return out;
  }

  // ---- values ----

  static std::size_t column(const Table& t, std::string_view name) {
    const auto found = t.find(name);
    if (!found) throw Unknown(fmt::format("no column {}", name));
    return *found;
  }

  static int compare(const Value& a, const Value& b) {
    if (a.kind == Value::Kind::text && b.kind == Value::Kind::text) return a.text.compare(b.text);
    const std::int64_t x = a.as_number(), y = b.as_number();
    return x < y ? -1 : x > y ? 1 : 0;
  }

  Value value(const Expr& e, const Scope* scope) {
    using Op = Expr::Op;
    switch (e.op) {
      case Op::value: return e.value;
      case Op::parameter: return parameters_.at(e.number);
      case Op::variable: {
        if (e.name == "@@global.read_only") return Value::of(0);
        const auto found = session_.variables.find(e.name);
        return found == session_.variables.end() ? Value{} : found->second;
      }
      case Op::column:
        for (const Scope* s = scope; s; s = s->outer) {
          if (!e.table.empty() && e.table != *s->alias) continue;
          if (const auto found = s->table->find(e.name)) return (*s->row)[*found];
        }
        throw Unknown(fmt::format("no column {}", e.name));
      case Op::exists: return truth(!rows_of(*e.select, scope).empty());
      case Op::subquery: {
        const auto rows = rows_of(*e.select, scope);
        return rows.empty() ? Value{} : rows[0][0];
      }
      case Op::call: return called(e, scope);
    }
    return {};
  }

  static Value truth(bool yes) { return Value::of(yes ? 1 : 0); }

  Value called(const Expr& e, const Scope* scope) {
    const std::string& f = e.name;
    const auto of = [&](std::size_t i) { return value(e.of.at(i), scope); };
    // those that do not look at all of their values
    if (f == "IF") return of(of(0).yes() ? 1 : 2);
    if (f == "AND" || f == "OR") {
      const bool decides = f == "OR";
      const Value a = of(0);
      if (!a.null() && a.yes() == decides) return truth(decides);
      const Value b = of(1);
      if (!b.null() && b.yes() == decides) return truth(decides);
      return a.null() || b.null() ? Value{} : truth(!decides);
    }
    if (f == "COALESCE") {
      Value v;
      for (std::size_t i = 0; i < e.of.size() && v.null(); ++i) v = of(i);
      return v;
    }
    if (f == "TIMESTAMPDIFF") return Value::of(now_);  // of the one form: since 1970
    if (f == "ROW_COUNT") return Value::of(session_.row_count);
    if (f == "CONNECTION_ID") return Value::of(static_cast<std::int64_t>(session_.number));
    if (f == "RELEASE_ALL_LOCKS") {
      server_.names.release_all(session_.number);
      return Value::of(0);
    }
    if (f == "VALUES" && inserting_)
      return (*inserting_)[column(*inserting_into_, e.of.at(0).name)];

    std::vector<Value> v;
    for (std::size_t i = 0; i < e.of.size(); ++i) v.push_back(of(i));
    if (v.empty()) throw Unknown(fmt::format("no function {}", f));
    if (f == "IS NULL") return truth(v[0].null());
    if (f == "IS NOT NULL") return truth(!v[0].null());
    if (f == "IN")
      return truth(std::any_of(v.begin() + 1, v.end(),
                               [&](const Value& one) { return compare(v[0], one) == 0; }));
    if (f == "GET_LOCK") return get_lock(v[0].shown(), v.at(1));
    if (f == "IS_USED_LOCK") {
      const auto owner = server_.names.owner(v[0].shown());
      return owner ? Value::of(static_cast<std::int64_t>(*owner)) : Value{};
    }
    if (f == "RELEASE_LOCK") {
      const auto done = server_.names.release(session_.number, v[0].shown());
      return done ? truth(*done) : Value{};
    }
    if (std::any_of(v.begin(), v.end(), [](const Value& one) { return one.null(); })) return {};
    if (f == "CONCAT") {
      std::string all;
      for (const Value& one : v) all += one.shown();
      return Value::of(std::move(all));
    }
    if (f == "NOT") return truth(!v[0].yes());
    if (f == "CAST") return Value::of(v[0].shown());
    if (f == "LEFT")
      return Value::of(v[0].shown().substr(0, static_cast<std::size_t>(v.at(1).as_number())));
    if (f == "LAST_INSERT_ID") {
      insert_id_ = static_cast<std::uint64_t>(v[0].as_number());
      return v[0];
    }
    // the largest that there is: only ever compared with
    if (f == "~") return Value::of(std::numeric_limits<std::int64_t>::max() - v[0].as_number());
    if (v.size() == 2) {
      if (f == "+") return Value::of(v[0].as_number() + v[1].as_number());
      if (f == "-") return Value::of(v[0].as_number() - v[1].as_number());
      if (f == "*") return Value::of(v[0].as_number() * v[1].as_number());
      const int order = compare(v[0], v[1]);
      if (f == "=") return truth(order == 0);
      if (f == "<>") return truth(order != 0);
      if (f == "<") return truth(order < 0);
      if (f == ">") return truth(order > 0);
      if (f == "<=") return truth(order <= 0);
      if (f == ">=") return truth(order >= 0);
    }
    throw Unknown(fmt::format("no function {}", f));
  }

  Value get_lock(const std::string& name, const Value& seconds) {
    if (server_.names.take(session_.number, name)) return Value::of(1);
    if (seconds.shown() != "0") throw Unknown("GET_LOCK that waits within another statement");
    return Value::of(0);
  }

  Server& server_;
  Session& session_;
  const std::int64_t now_;
  std::vector<Value> parameters_;
  std::uint64_t insert_id_ = 0;
  const Row* inserting_ = nullptr;
  const Table* inserting_into_ = nullptr;
};

}  // namespace

std::optional<std::size_t> Table::find(std::string_view column) const noexcept {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].name == column) return i;
  return std::nullopt;
}

std::optional<std::uint64_t> Names::owner(std::string_view name) const {
  const auto found = taken_.find(name);
  return found == taken_.end() ? std::nullopt : std::optional{found->second.by};
}

bool Names::take(std::uint64_t session, const std::string& name) {
  Taken& t = taken_.try_emplace(name, Taken{session, 0}).first->second;
  if (t.by != session) return false;
  ++t.times;
  return true;
}

std::optional<bool> Names::release(std::uint64_t session, std::string_view name) {
  const auto found = taken_.find(name);
  if (found == taken_.end()) return std::nullopt;
  if (found->second.by != session) return false;
  if (--found->second.times == 0) taken_.erase(found);
  return true;
}

void Names::release_all(std::uint64_t session) {
  std::erase_if(taken_, [&](const auto& t) { return t.second.by == session; });
}

Reply Server::execute(Session& session, const Statement& s, std::int64_t now) {
  try {
    return Run{*this, session, now}.statement(s);
  } catch (const MissingTable&) {
    Reply reply;
    reply.error = no_such_table;
    return reply;
  }
}

}  // namespace dlock::simulation::sql
