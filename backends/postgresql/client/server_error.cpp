// SPDX-License-Identifier: Apache-2.0
#include "postgresql/client/server_error.hpp"
#include <algorithm>
#include "common/url_items.hpp"

namespace dlock::postgresql {
namespace {

constexpr std::string_view rights = "the rights dlock needs are in dlock-postgresql(7)";
constexpr std::string_view login =
    "user and password: the URL, --password-file, DLOCK_PASSWORD, PGPASSWORD or ~/.pgpass";

bool has(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != text.npos;
}

// "FATAL:  28P01: password authentication failed": with PQERRORS_VERBOSE the state comes first.
std::string_view state_in(std::string_view text) noexcept {
  const auto letter = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t at = text.find(":  "); at != text.npos; at = text.find(":  ", at + 1)) {
    const std::string_view code = text.substr(at + 3, 6);
    if (code.size() == 6 && code[5] == ':' && std::all_of(code.begin(), code.end() - 1, letter))
      return code.substr(0, 5);
  }
  return {};
}

}  // namespace

ServerError classify(std::string_view sqlstate) noexcept {
  using enum Remedy;
  static constexpr ServerError known[] = {
      // Errors after which nothing was written.
      {"40", later, Errc::unavailable},
      {"55P03", later, Errc::unavailable, "the row is locked for long"},
      {"57014", later, Errc::unavailable, "the statement was cancelled"},
      {"26000", later, Errc::unavailable},
      {"53300", elsewhere, Errc::unavailable,
       "each holder and waiter needs a connection: raise max_connections"},
      {"53", elsewhere, Errc::unavailable},
      {"57P03", elsewhere, Errc::unavailable},
      {"25006", elsewhere, Errc::unavailable,
       "a standby, or a server that was made read-only; locks live on the one that writes"},
      // The session is over.
      {"57P01", reconnect, Errc::timed_out},
      {"57P02", reconnect, Errc::timed_out},
      {"57P05", reconnect, Errc::timed_out},
      {"57P04", reconnect, Errc::cannot_create, "create the database first"},
      {"25P03", reconnect, Errc::timed_out},
      {"08P01", reconnect, Errc::protocol},
      {"08", reconnect, Errc::timed_out},
      // Tables.
      {"42P01", create, Errc::cannot_create},
      {"3D000", none, Errc::cannot_create, "create the database first"},
      {"3F000", none, Errc::cannot_create, "create a schema of the search_path first"},
      {"42703", none, Errc::usage, "the table has other columns than this recipe needs"},
      {"42704", none, Errc::usage, "this server is too old"},
      {"42883", none, Errc::usage, "this server is too old"},
      {"22021", none, Errc::usage, "the database has another encoding"},
      {"22P05", none, Errc::usage, "the database has another encoding"},
      // Rights.
      {"42501", none, Errc::denied, rights},
      {"28", none, Errc::denied, login},
  };
  for (const auto& e : known)
    if (sqlstate.starts_with(e.id)) return e;
  return {sqlstate, none, Errc::protocol};
}

Error as_error(std::string_view what, std::string_view where, std::string_view sqlstate,
               std::string_view text) {
  const ServerError e = classify(sqlstate);
  return refused(e.code, what, where, text.substr(0, text.find('\n')), e.advice);
}

Error as_login_error(std::string_view where, std::string_view text) {
  const std::string_view state = state_in(text);
  std::string_view shown = text.substr(0, text.find('\n'));
  if (!state.empty()) {
    shown = shown.substr(std::min(shown.find(state) + 7, shown.size()));
    ServerError e = classify(state);
    // This state means a broken protocol, but PgBouncer uses it to refuse a login.
    if (state == "08P01" && has(text, "authentication failed")) e = classify("28");
    if (state == "08P01" && has(text, "no such database")) e = classify("3D000");
    if (e.code == Errc::timed_out) e.code = Errc::unavailable;  // no request has been sent yet
    return refused(e.code, "connect", where, shown, e.advice);
  }
  if (const auto failed = shown.find("failed: "); failed != shown.npos)
    shown = shown.substr(failed + 8);
  // The network failed during the handshake; TLS refused nothing.
  if (has(text, "SSL SYSCALL error") || has(text, "SSL negotiation packet") ||
      has(text, "SSL connection has been closed"))
    return refused(Errc::unavailable, "connect", where, shown, "");
  if (has(text, "no password supplied"))
    return refused(Errc::denied, "connect", where, shown, login);
  if (has(text, "private key file") || has(text, "certificate file"))
    return refused(Errc::config, "connect", where, shown,
                   has(text, "root certificate file") ? tls_advice : "");
  if (has(text, "certificate") || has(text, "SSL"))
    return refused(Errc::denied, "connect", where, shown, tls_advice);
  if (has(text, "authentication")) return refused(Errc::denied, "connect", where, shown, login);
  return refused(Errc::unavailable, "connect", where, shown, "");
}

}  // namespace dlock::postgresql
