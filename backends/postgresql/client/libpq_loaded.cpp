// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <array>
#include <cstdlib>
#include "postgresql/client/libpq.hpp"

namespace {

void* library() noexcept {
  static void* const handle = ::dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <class F>
F* function(F*, const char* name) noexcept {
  void* const found = library() ? ::dlsym(library(), name) : nullptr;
  if (!found) std::abort();  // libpq_ready() was not asked
  return reinterpret_cast<F*>(found);
}

constexpr std::array names{"PQconnectStartParams", "PQenterPipelineMode", "PQpipelineSync"};

}  // namespace

namespace dlock::postgresql {

Result<void> libpq_ready() {
  if (!library())
    return fail(Errc::config,
                "the client library libpq.so.5 is not there: install the package libpq5");
  for (const char* name : names)
    if (!::dlsym(library(), name))
      return fail(Errc::config, "the client library libpq.so.5 is older than PostgreSQL 14");
  return {};
}
std::string libpq_version() { return "5, loaded when it is needed"; }

}  // namespace dlock::postgresql

extern "C" {
PGconn* PQconnectStartParams(const char* const* keywords, const char* const* values, int expand) {
  return function(&::PQconnectStartParams, "PQconnectStartParams")(keywords, values, expand);
}
PostgresPollingStatusType PQconnectPoll(PGconn* c) {
  return function(&::PQconnectPoll, "PQconnectPoll")(c);
}
ConnStatusType PQstatus(const PGconn* c) { return function(&::PQstatus, "PQstatus")(c); }
int PQsocket(const PGconn* c) { return function(&::PQsocket, "PQsocket")(c); }
char* PQerrorMessage(const PGconn* c) { return function(&::PQerrorMessage, "PQerrorMessage")(c); }
void PQfinish(PGconn* c) { return function(&::PQfinish, "PQfinish")(c); }
int PQsetnonblocking(PGconn* c, int on) {
  return function(&::PQsetnonblocking, "PQsetnonblocking")(c, on);
}
int PQenterPipelineMode(PGconn* c) {
  return function(&::PQenterPipelineMode, "PQenterPipelineMode")(c);
}
int PQpipelineSync(PGconn* c) { return function(&::PQpipelineSync, "PQpipelineSync")(c); }
PGVerbosity PQsetErrorVerbosity(PGconn* c, PGVerbosity v) {
  return function(&::PQsetErrorVerbosity, "PQsetErrorVerbosity")(c, v);
}
PQnoticeProcessor PQsetNoticeProcessor(PGconn* c, PQnoticeProcessor p, void* arg) {
  return function(&::PQsetNoticeProcessor, "PQsetNoticeProcessor")(c, p, arg);
}
int PQsendQueryParams(PGconn* c, const char* sql, int n, const Oid* types,
                      const char* const* values, const int* lengths, const int* formats,
                      int format) {
  return function(&::PQsendQueryParams, "PQsendQueryParams")(c, sql, n, types, values, lengths,
                                                             formats, format);
}
int PQsendPrepare(PGconn* c, const char* name, const char* sql, int n, const Oid* types) {
  return function(&::PQsendPrepare, "PQsendPrepare")(c, name, sql, n, types);
}
int PQsendQueryPrepared(PGconn* c, const char* name, int n, const char* const* values,
                        const int* lengths, const int* formats, int format) {
  return function(&::PQsendQueryPrepared, "PQsendQueryPrepared")(c, name, n, values, lengths,
                                                                 formats, format);
}
int PQflush(PGconn* c) { return function(&::PQflush, "PQflush")(c); }
int PQconsumeInput(PGconn* c) { return function(&::PQconsumeInput, "PQconsumeInput")(c); }
int PQisBusy(PGconn* c) { return function(&::PQisBusy, "PQisBusy")(c); }
PGresult* PQgetResult(PGconn* c) { return function(&::PQgetResult, "PQgetResult")(c); }
ExecStatusType PQresultStatus(const PGresult* r) {
  return function(&::PQresultStatus, "PQresultStatus")(r);
}
void PQclear(PGresult* r) { return function(&::PQclear, "PQclear")(r); }
char* PQcmdTuples(PGresult* r) { return function(&::PQcmdTuples, "PQcmdTuples")(r); }
int PQntuples(const PGresult* r) { return function(&::PQntuples, "PQntuples")(r); }
int PQnfields(const PGresult* r) { return function(&::PQnfields, "PQnfields")(r); }
int PQgetisnull(const PGresult* r, int row, int column) {
  return function(&::PQgetisnull, "PQgetisnull")(r, row, column);
}
int PQgetlength(const PGresult* r, int row, int column) {
  return function(&::PQgetlength, "PQgetlength")(r, row, column);
}
char* PQgetvalue(const PGresult* r, int row, int column) {
  return function(&::PQgetvalue, "PQgetvalue")(r, row, column);
}
char* PQresultErrorField(const PGresult* r, int field) {
  return function(&::PQresultErrorField, "PQresultErrorField")(r, field);
}
char* PQresultErrorMessage(const PGresult* r) {
  return function(&::PQresultErrorMessage, "PQresultErrorMessage")(r);
}
int PQbackendPID(const PGconn* c) { return function(&::PQbackendPID, "PQbackendPID")(c); }
}
