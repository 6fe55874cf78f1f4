// SPDX-License-Identifier: Apache-2.0
#include "contract/mysql/compared.hpp"
#include <mysql.h>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include "simulation/bound_values.hpp"

namespace dlock::test {
namespace {

Compared* on = nullptr;

using simulation::sql::Reply;
using simulation::sql::Statement;

Compared::Expected* expected(MYSQL* m) {
  if (!on || on->paused) return nullptr;
  auto& left = on->expected[::mysql_thread_id(m)];
  if (left.empty()) FAIL("the server gives more answers than the simulated one");
  return &left.front();
}

void compare_end(MYSQL* m, bool failed) {
  const Compared::Expected* const e = expected(m);
  if (!e) return;
  CHECK((failed ? ::mysql_errno(m) : 0) == e->reply.error);
  if (!failed && !e->reply.has_rows && e->kind != Statement::Kind::prepare) {
    CHECK(::mysql_affected_rows(m) == e->reply.affected);
    if (e->reply.affected > 0 && e->kind == Statement::Kind::execute)
      CHECK(::mysql_insert_id(m) == e->reply.insert_id);
  }
  ++on->answers;
  if (failed || !e->reply.has_rows) on->expected[::mysql_thread_id(m)].pop_front();
}

void compare_rows(MYSQL* m, MYSQL_RES* result) {
  const Compared::Expected* const e = result ? expected(m) : nullptr;
  if (!e) return;
  // what the server says of itself
  const bool differs = e->kind == Statement::Kind::show_variables;
  if (!differs) REQUIRE(::mysql_num_rows(result) == e->reply.rows.size());
  for (const auto& row : e->reply.rows) {
    if (differs) break;
    ++on->rows;
    REQUIRE(::mysql_num_fields(result) == row.size());
    const MYSQL_ROW real = ::mysql_fetch_row(result);
    const unsigned long* const sizes = ::mysql_fetch_lengths(result);
    for (std::size_t i = 0; i < row.size(); ++i) {
      INFO("column " << i);
      REQUIRE((real[i] == nullptr) == row[i].null());
      if (real[i]) REQUIRE(std::string(real[i], sizes[i]) == row[i].shown());
    }
  }
  ::mysql_data_seek(result, 0);
  on->expected[::mysql_thread_id(m)].pop_front();
}

struct Prepared {
  MYSQL* connection;
  simulation::PreparedStatement words;
};
std::map<MYSQL_STMT*, Prepared> prepared;

void sends(MYSQL* m, std::string_view sql) {
  if (!on || on->paused) return;
  UNSCOPED_INFO("session " << ::mysql_thread_id(m) << ": " << std::string{sql});
  on->sends(::mysql_thread_id(m), sql);
}
// Of a call in steps.
int compared(MYSQL_STMT* s, int awaited, int failed) {
  if (awaited == 0) compare_end(prepared.at(s).connection, failed != 0);
  return awaited;
}

}  // namespace

Compared::Compared() { on = this; }
Compared::~Compared() { on = nullptr; }

void Compared::sends(std::uint64_t session, std::string_view sql) {
  simulation::sql::Session& s = sessions_[session];
  s.number = session;
  expected[session].clear();
  for (const Statement& statement : simulation::sql::parse(sql)) {
    expected[session].push_back({statement.kind, server_.execute(s, statement, 0)});
    if (expected[session].back().reply.error != 0) return;
  }
}

void Compared::ends(std::uint64_t session) {
  sessions_.erase(session);
  server_.names.release_all(session);
}

}  // namespace dlock::test

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

int __real_mysql_send_query(MYSQL*, const char*, unsigned long);
int __wrap_mysql_send_query(MYSQL* m, const char* sql, unsigned long size) {
  dlock::test::sends(m, {sql, size});
  return __real_mysql_send_query(m, sql, size);
}

my_bool __real_mysql_read_query_result(MYSQL*);
my_bool __wrap_mysql_read_query_result(MYSQL* m) {
  const my_bool failed = __real_mysql_read_query_result(m);
  dlock::test::compare_end(m, failed != 0);
  return failed;
}

int __real_mysql_next_result(MYSQL*);
int __wrap_mysql_next_result(MYSQL* m) {
  const int more = __real_mysql_next_result(m);
  if (more >= 0) dlock::test::compare_end(m, more > 0);
  return more;
}

MYSQL_RES* __real_mysql_store_result(MYSQL*);
MYSQL_RES* __wrap_mysql_store_result(MYSQL* m) {
  MYSQL_RES* const result = __real_mysql_store_result(m);
  dlock::test::compare_rows(m, result);
  return result;
}

MYSQL_STMT* __real_mysql_stmt_init(MYSQL*);
MYSQL_STMT* __wrap_mysql_stmt_init(MYSQL* m) {
  MYSQL_STMT* const s = __real_mysql_stmt_init(m);
  static unsigned count = 0;  // a handle may be that of one that was closed
  dlock::test::prepared[s] = {m, {fmt::format("s{}", count++), ""}};
  return s;
}

int __real_mysql_stmt_prepare_start(int*, MYSQL_STMT*, const char*, unsigned long);
int __wrap_mysql_stmt_prepare_start(int* failed, MYSQL_STMT* s, const char* sql,
                                    unsigned long size) {
  auto& [m, words] = dlock::test::prepared.at(s);
  words.text.assign(sql, size);
  dlock::test::sends(m, words.prepare());
  const int awaited = __real_mysql_stmt_prepare_start(failed, s, sql, size);
  return dlock::test::compared(s, awaited, *failed);
}
int __real_mysql_stmt_prepare_cont(int*, MYSQL_STMT*, int);
int __wrap_mysql_stmt_prepare_cont(int* failed, MYSQL_STMT* s, int happened) {
  const int awaited = __real_mysql_stmt_prepare_cont(failed, s, happened);
  return dlock::test::compared(s, awaited, *failed);
}

my_bool __real_mysql_stmt_bind_param(MYSQL_STMT*, MYSQL_BIND*);
my_bool __wrap_mysql_stmt_bind_param(MYSQL_STMT* s, MYSQL_BIND* bound) {
  dlock::test::prepared.at(s).words.bind(bound);
  return __real_mysql_stmt_bind_param(s, bound);
}

int __real_mysql_stmt_execute_start(int*, MYSQL_STMT*);
int __wrap_mysql_stmt_execute_start(int* failed, MYSQL_STMT* s) {
  const auto& [m, words] = dlock::test::prepared.at(s);
  dlock::test::sends(m, words.execute());
  const int awaited = __real_mysql_stmt_execute_start(failed, s);
  return dlock::test::compared(s, awaited, *failed);
}
int __real_mysql_stmt_execute_cont(int*, MYSQL_STMT*, int);
int __wrap_mysql_stmt_execute_cont(int* failed, MYSQL_STMT* s, int happened) {
  const int awaited = __real_mysql_stmt_execute_cont(failed, s, happened);
  return dlock::test::compared(s, awaited, *failed);
}

my_bool __real_mysql_stmt_close(MYSQL_STMT*);
my_bool __wrap_mysql_stmt_close(MYSQL_STMT* s) {
  dlock::test::prepared.erase(s);
  return __real_mysql_stmt_close(s);
}

void __real_mysql_close(MYSQL*);
void __wrap_mysql_close(MYSQL* m) {
  if (dlock::test::on) dlock::test::on->ends(::mysql_thread_id(m));
  __real_mysql_close(m);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
