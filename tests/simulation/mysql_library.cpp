// SPDX-License-Identifier: Apache-2.0
// The functions of MariaDB Connector/C that dlock calls, in place of the library: above the
// simulated system calls, in frames that database.cpp understands. As in the library a login is
// made in steps, a request is written without waiting, and an answer is read until it is there or
// the read timeout has passed. (A login is one exchange here; in the protocol the server speaks
// first.)
#include <errmsg.h>
#include <mysql.h>
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>
#include "core/number.hpp"
#include "mysql/client/connection.hpp"
#include "simulation/ensemble.hpp"
#include "simulation/process.hpp"

using namespace dlock::simulation;

namespace {

Process& caller() { return *World::current()->active; }

std::uint64_t number(const std::string& text) {
  return dlock::parse_number<std::uint64_t>(text).value_or(0);
}

// What a MYSQL* of these functions points to.
struct Handle {
  int fd = -1;
  bool logged_in = false;
  unsigned connect_timeout = 0, read_timeout = 0;
  std::uint64_t thread = 0, affected = 0, insert_id = 0;
  unsigned error = 0;
  std::string inbox;
  Fields answer;  // the current one
  std::string message;

  int fails(unsigned with) {
    error = with;
    message = "simulated";
    return 1;
  }
  int lost() {
    if (fd >= 0) caller().close(std::exchange(fd, -1));
    return fails(CR_SERVER_LOST);
  }
  bool receive() {  // false: the connection is over
    char buffer[8192];
    const long n = caller().receive(fd, buffer, sizeof buffer);
    if (n > 0) inbox.append(buffer, static_cast<std::size_t>(n));
    return n > 0 || n == -EAGAIN;
  }
  bool send(const Fields& f) {
    const std::string bytes = frame(f);
    return caller().send(fd, bytes.data(), bytes.size()) >= 0;
  }
  int read_answer() {
    if (fd < 0) return fails(CR_SERVER_GONE_ERROR);
    const Nanos until = caller().clock() + read_timeout * second;
    while ((answer = take_frame(inbox)).empty()) {
      if (!receive()) return lost();
      if (!inbox.empty()) continue;
      pollfd p{fd, POLLIN, 0};
      const Nanos left = until - caller().clock();
      if (left <= 0 || caller().poll(&p, 1, left) == 0) return lost();
    }
    return judge_answer();
  }
  int judge_answer() {
    if (answer[0] == "error") return fails(static_cast<unsigned>(number(answer[2])));
    affected = number(answer[2]);
    insert_id = number(answer[3]);
    return 0;
  }
};

struct Rows {
  std::vector<std::string> cells;  // behind a '='; empty: NULL
  std::size_t columns = 0, next = 0;
  std::vector<char*> row;
  std::vector<unsigned long> sizes;
};

// What a MYSQL_STMT* points to. Its answers are read in steps.
struct Statement {
  Handle* connection;
  std::string text{}, with_values{};

  int ask(const std::string& sql, int& failed) {
    Handle& h = *connection;
    h.error = 0;
    if (h.fd >= 0 && h.send({"query", sql})) return MYSQL_WAIT_READ | MYSQL_WAIT_TIMEOUT;
    failed = h.fails(CR_SERVER_GONE_ERROR);
    return 0;
  }
  int go_on(int& failed, int happened) {
    Handle& h = *connection;
    failed = 0;
    if ((happened & MYSQL_WAIT_TIMEOUT) != 0 || !h.receive()) {
      failed = h.lost();
      return 0;
    }
    h.answer = take_frame(h.inbox);
    if (h.answer.empty()) return MYSQL_WAIT_READ | MYSQL_WAIT_TIMEOUT;
    failed = h.judge_answer();
    return 0;
  }
};

std::string in_sql(const MYSQL_BIND& b) {
  if (b.buffer_type == MYSQL_TYPE_LONGLONG && b.is_unsigned != 0)
    return std::to_string(*static_cast<const std::uint64_t*>(b.buffer));
  if (b.buffer_type == MYSQL_TYPE_LONGLONG)
    return std::to_string(*static_cast<const std::int64_t*>(b.buffer));
  return dlock::mysql::hex({static_cast<const char*>(b.buffer), b.buffer_length});
}

Handle* of(const MYSQL* m) { return reinterpret_cast<Handle*>(const_cast<MYSQL*>(m)); }
Rows* of(MYSQL_RES* r) { return reinterpret_cast<Rows*>(r); }
Statement* of(MYSQL_STMT* s) { return reinterpret_cast<Statement*>(s); }

}  // namespace

extern "C" {

MYSQL* mysql_init(MYSQL*) { return reinterpret_cast<MYSQL*>(new Handle); }

void mysql_close(MYSQL* m) {
  Handle* const h = of(m);
  if (h->fd >= 0) {
    (void)h->send({"quit"});
    caller().close(h->fd);
  }
  delete h;
}

int mysql_options(MYSQL* m, mysql_option option, const void* value) {
  if (option == MYSQL_OPT_CONNECT_TIMEOUT)
    of(m)->connect_timeout = *static_cast<const unsigned*>(value);
  if (option == MYSQL_OPT_READ_TIMEOUT) of(m)->read_timeout = *static_cast<const unsigned*>(value);
  return 0;
}
int mysql_options4(MYSQL*, mysql_option, const void*, const void*) { return 0; }
int mysql_ssl_set(MYSQL*, const char*, const char*, const char*, const char*, const char*) {
  return 0;
}
const char* mysql_get_ssl_cipher(MYSQL*) { return nullptr; }
const char* mysql_get_client_info() { return "simulated"; }

// ---- login ----

int mysql_real_connect_start(MYSQL** made, MYSQL* m, const char*, const char*, const char*,
                             const char*, unsigned, const char*, unsigned long) {
  Handle* const h = of(m);
  *made = nullptr;
  h->fd = caller().new_socket();
  if (caller().connect(h->fd) != -EINPROGRESS) {
    h->fails(CR_CONN_HOST_ERROR);
    return 0;
  }
  return MYSQL_WAIT_WRITE | MYSQL_WAIT_TIMEOUT;
}

int mysql_real_connect_cont(MYSQL** made, MYSQL* m, int happened) {
  Handle* const h = of(m);
  const bool dials = !std::exchange(h->logged_in, true);
  if ((happened & MYSQL_WAIT_TIMEOUT) != 0) {
    h->lost();
    if (dials) h->fails(CR_CONNECTION_ERROR);
    return 0;
  }
  if (dials) {
    if (caller().socket_error(h->fd) != 0) {
      h->fails(CR_CONN_HOST_ERROR);
      return 0;
    }
    if (h->send({"login"})) return MYSQL_WAIT_READ | MYSQL_WAIT_TIMEOUT;
    h->lost();
    return 0;
  }
  if (!h->receive()) {
    h->lost();
    return 0;
  }
  const Fields f = take_frame(h->inbox);
  if (f.empty()) return MYSQL_WAIT_READ | MYSQL_WAIT_TIMEOUT;
  h->thread = number(f[1]);
  *made = m;
  return 0;
}

unsigned mysql_get_timeout_value_ms(const MYSQL* m) { return of(m)->connect_timeout * 1000; }
my_socket mysql_get_socket(MYSQL* m) { return of(m)->fd; }
unsigned long mysql_thread_id(MYSQL* m) { return of(m)->thread; }

// ---- statements ----

int mysql_send_query(MYSQL* m, const char* sql, unsigned long size) {
  Handle* const h = of(m);
  h->error = 0;
  if (h->fd < 0 || !h->send({"query", std::string(sql, size)}))
    return h->fails(CR_SERVER_GONE_ERROR);
  return 0;
}

my_bool mysql_read_query_result(MYSQL* m) { return static_cast<my_bool>(of(m)->read_answer()); }

int mysql_next_result(MYSQL* m) {
  Handle* const h = of(m);
  if (h->answer.size() < 2 || h->answer[1] == "last") return -1;
  return h->read_answer();
}

unsigned mysql_field_count(MYSQL* m) { return of(m)->answer[0] == "rows" ? 1 : 0; }

MYSQL_RES* mysql_store_result(MYSQL* m) {
  Handle* const h = of(m);
  if (h->answer[0] != "rows") return nullptr;
  auto* const rows = new Rows;
  const std::size_t count = number(h->answer[4]);
  rows->cells.assign(h->answer.begin() + 5, h->answer.end());
  rows->columns = count > 0 ? rows->cells.size() / count : 0;
  return reinterpret_cast<MYSQL_RES*>(rows);
}

// ---- prepared statements ----

MYSQL_STMT* mysql_stmt_init(MYSQL* m) {
  return reinterpret_cast<MYSQL_STMT*>(new Statement{of(m)});
}
int mysql_stmt_prepare_start(int* failed, MYSQL_STMT* s, const char* sql, unsigned long size) {
  of(s)->text.assign(sql, size);
  return of(s)->ask("PREPARE " + of(s)->text, *failed);
}
int mysql_stmt_prepare_cont(int* failed, MYSQL_STMT* s, int happened) {
  return of(s)->go_on(*failed, happened);
}
my_bool mysql_stmt_bind_param(MYSQL_STMT* s, MYSQL_BIND* bound) {
  std::string& sql = of(s)->with_values;
  sql.clear();
  for (const char c : of(s)->text) {
    if (c == '?') sql += in_sql(*bound++);
    else sql += c;
  }
  return 0;
}
int mysql_stmt_execute_start(int* failed, MYSQL_STMT* s) {
  return of(s)->ask(of(s)->with_values, *failed);
}
int mysql_stmt_execute_cont(int* failed, MYSQL_STMT* s, int happened) {
  return of(s)->go_on(*failed, happened);
}
my_ulonglong mysql_stmt_affected_rows(MYSQL_STMT* s) { return of(s)->connection->affected; }
my_ulonglong mysql_stmt_insert_id(MYSQL_STMT* s) { return of(s)->connection->insert_id; }
unsigned mysql_stmt_errno(MYSQL_STMT* s) { return of(s)->connection->error; }
const char* mysql_stmt_error(MYSQL_STMT* s) { return of(s)->connection->message.c_str(); }
my_bool mysql_stmt_close(MYSQL_STMT* s) {  // behind mysql_close
  delete of(s);
  return 0;
}

my_ulonglong mysql_affected_rows(MYSQL* m) { return of(m)->affected; }
my_ulonglong mysql_insert_id(MYSQL* m) { return of(m)->insert_id; }
unsigned mysql_num_fields(MYSQL_RES* r) { return static_cast<unsigned>(of(r)->columns); }

MYSQL_ROW mysql_fetch_row(MYSQL_RES* r) {
  Rows& rows = *of(r);
  if (rows.next >= rows.cells.size()) return nullptr;
  rows.row.clear();
  rows.sizes.clear();
  for (std::size_t i = 0; i < rows.columns; ++i) {
    std::string& cell = rows.cells[rows.next++];
    rows.row.push_back(cell.empty() ? nullptr : cell.data() + 1);
    rows.sizes.push_back(cell.empty() ? 0 : cell.size() - 1);
  }
  return rows.row.data();
}

unsigned long* mysql_fetch_lengths(MYSQL_RES* r) { return of(r)->sizes.data(); }
void mysql_free_result(MYSQL_RES* r) { delete of(r); }
unsigned mysql_errno(MYSQL* m) { return of(m)->error; }
const char* mysql_error(MYSQL* m) { return of(m)->message.c_str(); }

}  // extern "C"
