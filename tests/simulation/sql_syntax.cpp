// SPDX-License-Identifier: Apache-2.0
#include "simulation/sql_syntax.hpp"
#include <fmt/format.h>
#include <array>
#include <cstdlib>
#include <utility>

namespace dlock::simulation::sql {
namespace {

struct Token {
  enum class Kind { end, word, number, text, variable, mark } kind = Kind::end;
  std::string text;
};

bool letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool digit(char c) noexcept { return c >= '0' && c <= '9'; }

unsigned nibble(char c) noexcept {
  return static_cast<unsigned>(digit(c) ? c - '0' : c - 'a' + 10);
}

class Words {
 public:
  explicit Words(std::string_view text) : text_(text) { read(); }

  const Token& now() const noexcept { return now_; }
  Token take() {
    Token t = std::move(now_);
    read();
    return t;
  }
  bool is(std::string_view word) const noexcept {
    return (now_.kind == Token::Kind::word || now_.kind == Token::Kind::mark) && now_.text == word;
  }
  bool skip(std::string_view word) {
    const bool there = is(word);
    if (there) read();
    return there;
  }
  void need(std::string_view word) {
    if (!skip(word)) refuse();
  }
  std::string name() {
    if (now_.kind != Token::Kind::word) refuse();
    return take().text;
  }
  [[noreturn]] void refuse() const {
    throw Unknown(fmt::format("the simulated SQL ends at '{}' of: {}", now_.text, text_));
  }

 private:
  char at(std::size_t i) const noexcept { return i < text_.size() ? text_[i] : '\0'; }

  void read() {
    for (;;) {
      while (at(at_) == ' ' || at(at_) == '\n') ++at_;
      if (at(at_) != '-' || at(at_ + 1) != '-') break;
      while (at_ < text_.size() && at(at_) != '\n') ++at_;
    }
    const std::size_t from = at_;
    if (from >= text_.size()) {
      now_ = {};
    } else if (at(from) == 'x' && at(from + 1) == '\'') {
      std::string bytes;
      for (at_ += 2; at(at_) != '\''; at_ += 2)
        bytes += static_cast<char>(nibble(at(at_)) << 4U | nibble(at(at_ + 1)));
      ++at_;
      now_ = {Token::Kind::text, std::move(bytes)};
    } else if (at(from) == '\'' || at(from) == '"') {
      const std::size_t end = text_.find(at(from), from + 1);
      if (end == text_.npos) refuse();
      at_ = end + 1;
      now_ = {Token::Kind::text, std::string{text_.substr(from + 1, end - from - 1)}};
    } else if (letter(at(from)) || at(from) == '@') {
      const bool variable = at(from) == '@';
      while (letter(at(at_)) || digit(at(at_)) || at(at_) == '@' || (variable && at(at_) == '.'))
        ++at_;
      now_ = {variable ? Token::Kind::variable : Token::Kind::word,
              std::string{text_.substr(from, at_ - from)}};
    } else if (digit(at(from))) {
      while (digit(at(at_)) || at(at_) == '.') ++at_;
      now_ = {Token::Kind::number, std::string{text_.substr(from, at_ - from)}};
    } else {
      const std::string_view two = text_.substr(from, 2);
      at_ += two == "<=" || two == ">=" || two == "<>" ? 2 : 1;
      now_ = {Token::Kind::mark, std::string{text_.substr(from, at_ - from)}};
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Token now_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) {}

  std::vector<Statement> all() {
    std::vector<Statement> out;
    while (in_.now().kind != Token::Kind::end) {
      parameters_ = 0;
      out.push_back(statement());
      if (in_.now().kind != Token::Kind::end) in_.need(";");
    }
    return out;
  }

 private:
  using Kind = Statement::Kind;

  Statement statement() {
    if (in_.is("SELECT")) {
      Statement s;
      s.select = select();
      return s;
    }
    if (in_.skip("UPDATE")) return update();
    if (in_.skip("INSERT")) return insert();
    if (in_.skip("DELETE")) return erase();
    if (in_.skip("SET")) return set();
    if (in_.skip("CREATE")) return create();
    Statement s;
    if (in_.skip("DO")) {
      s.kind = Kind::run;
      s.values = list();
    } else if (in_.skip("SHOW")) {
      s.kind = Kind::show_variables;
      for (const std::string_view word : {"VARIABLES", "WHERE", "Variable_name", "IN", "("})
        in_.need(word);
      s.values = list();
      in_.need(")");
    } else if (in_.skip("PREPARE")) {
      s.kind = Kind::prepare;
      s.name = in_.name();
      in_.need("FROM");
      if (in_.now().kind != Token::Kind::text) in_.refuse();
      auto prepared = sql::parse(in_.take().text);
      if (prepared.size() != 1) in_.refuse();
      s.prepared = std::make_shared<const Statement>(std::move(prepared.front()));
    } else if (in_.skip("EXECUTE")) {
      s.kind = Kind::execute;
      s.name = in_.name();
      in_.need("USING");
      s.values = list();
    } else if (in_.skip("KILL")) {
      s.kind = Kind::kill_query;
      in_.need("QUERY");
      s.values = list();
    } else {
      in_.refuse();
    }
    return s;
  }

  Statement update() {
    Statement s;
    s.kind = Kind::update;
    s.select.from = {source()};
    in_.need("SET");
    s.assignments = assignments();
    if (in_.skip("WHERE")) s.select.where = any();
    return s;
  }

  Statement insert() {
    Statement s;
    s.kind = Kind::insert;
    s.ignore = in_.skip("IGNORE");
    in_.need("INTO");
    s.select.from = {{in_.name(), {}}};
    in_.need("(");
    do s.assignments.push_back({in_.name(), {}});
    while (in_.skip(","));
    for (const std::string_view word : {")", "VALUES", "("}) in_.need(word);
    auto values = list();
    in_.need(")");
    if (values.size() != s.assignments.size()) in_.refuse();
    for (std::size_t i = 0; i < values.size(); ++i) s.assignments[i].value = std::move(values[i]);
    if (in_.skip("ON")) {
      for (const std::string_view word : {"DUPLICATE", "KEY", "UPDATE"}) in_.need(word);
      s.on_duplicate = assignments();
    }
    return s;
  }

  // DELETE FROM t WHERE ..., DELETE a FROM t a WHERE ...
  Statement erase() {
    Statement s;
    s.kind = Kind::erase;
    if (!in_.is("FROM")) (void)in_.name();
    in_.need("FROM");
    s.select.from = {source()};
    if (in_.skip("WHERE")) s.select.where = any();
    return s;
  }

  Statement set() {
    Statement s;
    if (in_.now().kind == Token::Kind::variable) {
      s.kind = Kind::set_variable;
      const std::string name = in_.take().text;
      in_.need("=");
      s.assignments.push_back({name, any()});
      return s;
    }
    s.kind = Kind::set_session;
    if (in_.skip("NAMES")) {  // it knows one character set
      in_.need("utf8mb4");
      return s;
    }
    in_.need("SESSION");
    if (in_.skip("TRANSACTION")) {  // every statement is a transaction of its own here
      while (in_.now().kind == Token::Kind::word) in_.take();
      return s;
    }
    s.assignments = assignments();
    return s;
  }

  Statement create() {
    Statement s;
    s.kind = Kind::create;
    for (const std::string_view word : {"TABLE", "IF", "NOT", "EXISTS"}) in_.need(word);
    s.name = in_.name();
    in_.need("(");
    do {
      if (in_.skip("UNIQUE")) {
        in_.need("KEY");
        in_.name();
        s.keys.push_back(names());
      } else if (in_.skip("KEY")) {
        in_.name();
        (void)names();
      } else {
        column(s);
      }
    } while (in_.skip(","));
    for (const std::string_view word : {")", "ENGINE", "=", "InnoDB"}) in_.need(word);
    return s;
  }

  void column(Statement& s) {
    Column c;
    c.name = in_.name();
    while (!in_.is(",") && !in_.is(")")) {
      if (in_.skip("DEFAULT")) c.usual = primary().value;
      else if (in_.skip("AUTO_INCREMENT")) c.counts = true;
      else if (in_.skip("PRIMARY")) s.keys.push_back({c.name});
      else if (in_.skip("(")) in_.take(), in_.need(")");  // its length
      else in_.name();
    }
    s.columns.push_back(std::move(c));
  }

  std::vector<std::string> names() {
    std::vector<std::string> out;
    in_.need("(");
    do out.push_back(in_.name());
    while (in_.skip(","));
    in_.need(")");
    return out;
  }

  std::vector<Assignment> assignments() {
    std::vector<Assignment> out;
    do {
      std::string name = in_.name();
      in_.need("=");
      out.push_back({std::move(name), any()});
    } while (in_.skip(","));
    return out;
  }

  std::vector<Expr> list() {
    std::vector<Expr> out;
    do out.push_back(any());
    while (in_.skip(","));
    return out;
  }

  Source source() {
    Source s{in_.name(), {}};
    s.alias = s.table;
    const Token& next = in_.now();
    if (next.kind == Token::Kind::word && !in_.is("SET") && !in_.is("WHERE") && !in_.is("JOIN") &&
        !in_.is("ON") && !in_.is("ORDER"))
      s.alias = in_.take().text;
    return s;
  }

  Select select() {
    Select s;
    in_.need("SELECT");
    s.items = list();
    if (!in_.skip("FROM")) return s;
    s.from.push_back(source());
    if (in_.skip("JOIN")) {
      s.from.push_back(source());
      in_.need("ON");
      s.on = any();
    }
    if (in_.skip("WHERE")) s.where = any();
    if (in_.skip("ORDER")) {
      in_.need("BY");
      s.order = any();
      s.descending = in_.skip("DESC");
    }
    if (in_.skip("LIMIT")) {
      if (in_.take().text != "1") in_.refuse();
      s.limited = true;
      if (in_.skip("OFFSET")) s.offset = any();
    }
    return s;
  }

  // ---- expressions, from the loosest on
  static Expr call(std::string name, std::vector<Expr> of) {
    Expr e;
    e.op = Expr::Op::call;
    e.name = std::move(name);
    e.of = std::move(of);
    return e;
  }
  // moved, not copied: trees are deep
  template <class... Parts>
  static std::vector<Expr> parts(Parts&&... one) {
    std::vector<Expr> all;
    all.reserve(sizeof...(one));
    (all.push_back(std::forward<Parts>(one)), ...);
    return all;
  }
  static Expr constant(Value v) {
    Expr e;
    e.value = std::move(v);
    return e;
  }
  Expr any() {
    Expr left = all_of();
    while (in_.skip("OR")) left = call("OR", parts(std::move(left), all_of()));
    return left;
  }
  Expr all_of() {
    Expr left = no();
    while (in_.skip("AND")) left = call("AND", parts(std::move(left), no()));
    return left;
  }
  Expr no() { return in_.skip("NOT") ? call("NOT", parts(no())) : compared(); }
  Expr compared() {
    Expr left = sum();
    for (const std::string_view mark : {"=", "<>", "<=", ">=", "<", ">"})
      if (in_.skip(mark)) return call(std::string{mark}, parts(std::move(left), sum()));
    if (in_.skip("IS")) {
      const bool not_null = in_.skip("NOT");
      in_.need("NULL");
      return call(not_null ? "IS NOT NULL" : "IS NULL", parts(std::move(left)));
    }
    if (in_.skip("IN")) {
      in_.need("(");
      auto of = list();
      in_.need(")");
      of.insert(of.begin(), std::move(left));
      return call("IN", std::move(of));
    }
    return left;
  }
  Expr sum() {
    Expr left = product();
    for (;;) {
      if (in_.skip("+")) left = call("+", parts(std::move(left), product()));
      else if (in_.skip("-")) left = call("-", parts(std::move(left), product()));
      else return left;
    }
  }
  Expr product() {
    Expr left = primary();
    while (in_.skip("*")) left = call("*", parts(std::move(left), primary()));
    return left;
  }
  Expr primary() {
    const Token t = in_.take();
    Expr e;
    switch (t.kind) {
      case Token::Kind::number:
        // seconds, as of GET_LOCK: kept as text
        if (t.text.find('.') != t.text.npos) return constant(Value::of(t.text));
        return constant(Value::of(std::strtoll(t.text.c_str(), nullptr, 10)));
      case Token::Kind::text: return constant(Value::of(t.text));
      case Token::Kind::variable:
        e.op = Expr::Op::variable;
        e.name = t.text;
        return e;
      case Token::Kind::mark: return marked(t.text);
      case Token::Kind::word: return named(t.text);
      case Token::Kind::end: break;
    }
    in_.refuse();
  }
  Expr marked(const std::string& mark) {
    Expr e;
    if (mark == "?") {
      e.op = Expr::Op::parameter;
      e.number = parameters_++;
    } else if (mark == "~") {
      e = call("~", parts(primary()));
    } else if (mark == "(" && in_.is("SELECT")) {
      e.op = Expr::Op::subquery;
      e.select = std::make_shared<const Select>(select());
      in_.need(")");
    } else if (mark == "(") {
      e = any();
      in_.need(")");
    } else {
      in_.refuse();
    }
    return e;
  }
  Expr named(const std::string& name) {
    Expr e;
    if (name == "NULL") return e;
    if (name == "EXISTS") {
      in_.need("(");
      e.op = Expr::Op::exists;
      e.select = std::make_shared<const Select>(select());
      in_.need(")");
    } else if (in_.skip("(")) {
      e = call(name, {});
      if (name == "COUNT") in_.need("*");
      else if (!in_.is(")")) e.of = list();
      if (name == "CAST") in_.need("AS"), in_.need("CHAR");
      in_.need(")");
    } else {
      e.op = Expr::Op::column;
      e.name = name;
      if (in_.skip(".")) {
        e.table = name;
        e.name = in_.name();
      }
    }
    return e;
  }

  Words in_;
  std::size_t parameters_ = 0;
};

}  // namespace

std::int64_t Value::as_number() const noexcept {
  return kind == Kind::number ? number : std::strtoll(text.c_str(), nullptr, 10);
}

std::vector<Statement> parse(std::string_view text) { return Parser{text}.all(); }

}  // namespace dlock::simulation::sql
