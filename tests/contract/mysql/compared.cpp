// SPDX-License-Identifier: Apache-2.0
#include "contract/mysql/compared.hpp"
#include <mysql.h>
#include <catch2/catch.hpp>
#include <string>

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
  if (!failed && !e->reply.has_rows) {
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
  using namespace dlock::test;
  if (on && !on->paused) {
    UNSCOPED_INFO("session " << ::mysql_thread_id(m) << ": " << std::string(sql, size));
    on->sends(::mysql_thread_id(m), {sql, size});
  }
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

void __real_mysql_close(MYSQL*);
void __wrap_mysql_close(MYSQL* m) {
  if (dlock::test::on) dlock::test::on->ends(::mysql_thread_id(m));
  __real_mysql_close(m);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
