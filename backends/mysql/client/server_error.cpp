// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/server_error.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include "core/text.hpp"

namespace dlock::mysql {
namespace {

constexpr std::string_view rights = "the rights dlock needs are in dlock-mysql(7)";

constexpr std::array known{
    // Nothing was written.
    ServerError{1205, Remedy::again, Errc::unavailable, "the row is locked for long"},
    ServerError{1213, Remedy::again, Errc::unavailable, ""},
    ServerError{3058, Remedy::again, Errc::unavailable, ""},
    ServerError{3572, Remedy::again, Errc::unavailable, ""},
    ServerError{1243, Remedy::again, Errc::unavailable, ""},
    ServerError{1615, Remedy::again, Errc::unavailable, ""},
    ServerError{1020, Remedy::again, Errc::unavailable, ""},
    ServerError{1180, Remedy::again, Errc::unavailable, ""},
    // Too many.
    ServerError{1040, Remedy::elsewhere, Errc::unavailable,
                "each holder and waiter needs a connection: raise max_connections"},
    ServerError{1203, Remedy::elsewhere, Errc::unavailable,
                "each holder and waiter needs a connection: raise max_user_connections"},
    ServerError{1226, Remedy::elsewhere, Errc::unavailable,
                "each holder and waiter needs a connection: raise max_user_connections"},
    ServerError{1114, Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{1021, Remedy::elsewhere, Errc::unavailable, ""},
    // It does not write, or not yet.
    ServerError{1047, Remedy::elsewhere, Errc::unavailable,
                "the node is not in a primary component of its cluster"},
    ServerError{
        1290, Remedy::elsewhere, Errc::unavailable,
        "a replica, or a server that was made read-only; locks live on the one that writes"},
    ServerError{1792, Remedy::elsewhere, Errc::unavailable, "the server is read-only"},
    ServerError{1836, Remedy::elsewhere, Errc::unavailable, "the server is read-only"},
    ServerError{1129, Remedy::elsewhere, Errc::unavailable, "mariadb-admin flush-hosts"},
    ServerError{2001, Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{2002, Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{2003, Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{2004, Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{2005, Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{2012, Remedy::elsewhere, Errc::unavailable, ""},
    // The connection is gone.
    ServerError{1053, Remedy::reconnect, Errc::timed_out, "the server shuts down"},
    ServerError{1152, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1156, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1157, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1158, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1159, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1160, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1161, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{1317, Remedy::again, Errc::unavailable, "the statement was killed"},
    ServerError{1927, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{3169, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{4031, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{2006, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{2013, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{2014, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{2027, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{2055, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{5013, Remedy::reconnect, Errc::timed_out, ""},
    ServerError{5014, Remedy::reconnect, Errc::timed_out, ""},
    // Tables.
    ServerError{1146, Remedy::create, Errc::cannot_create, ""},
    ServerError{1049, Remedy::never, Errc::cannot_create, "create the database first"},
    ServerError{1046, Remedy::never, Errc::usage, "name a database in the URL"},
    ServerError{1054, Remedy::never, Errc::usage,
                "the table has other columns than this recipe needs"},
    ServerError{1059, Remedy::never, Errc::usage, "the name is too long"},
    ServerError{1235, Remedy::never, Errc::usage, ""},
    ServerError{1406, Remedy::never, Errc::usage, "the column is too short for this key"},
    ServerError{1366, Remedy::never, Errc::usage, "the column cannot take this key"},
    ServerError{1305, Remedy::never, Errc::usage,
                "this server is too old or none of MySQL's family"},
    // Rights.
    ServerError{1044, Remedy::never, Errc::denied, rights},
    ServerError{
        1045, Remedy::never, Errc::denied,
        "user and password: the URL, --password-file, DLOCK_PASSWORD, MYSQL_PWD or ~/.my.cnf; an "
        "account with REQUIRE SSL needs ?tls=yes"},
    ServerError{1095, Remedy::never, Errc::denied, "only its own user may end that connection"},
    ServerError{1130, Remedy::never, Errc::denied, ""},
    ServerError{1142, Remedy::never, Errc::denied, rights},
    ServerError{1143, Remedy::never, Errc::denied, rights},
    ServerError{1227, Remedy::never, Errc::denied, rights},
    ServerError{1251, Remedy::never, Errc::denied, ""},
    ServerError{1370, Remedy::never, Errc::denied, rights},
    ServerError{1524, Remedy::never, Errc::denied, ""},
    ServerError{1698, Remedy::never, Errc::denied, ""},
    ServerError{1820, Remedy::never, Errc::denied, "the password has expired"},
    ServerError{1862, Remedy::never, Errc::denied, "the password has expired"},
    ServerError{3118, Remedy::never, Errc::denied, "the account is locked"},
    ServerError{3159, Remedy::never, Errc::denied, "the server wants TLS: add ?tls=yes"},
    ServerError{4151, Remedy::never, Errc::denied, "the account is locked"},
    ServerError{
        2026, Remedy::never, Errc::denied,
        "TLS: --tls-ca names the authority that signed the server's certificate, which must "
        "be for the host in the URL"},
    ServerError{2049, Remedy::never, Errc::denied, ""},
    ServerError{2059, Remedy::never, Errc::denied, ""},
    ServerError{2061, Remedy::never, Errc::denied, ""},
};

}  // namespace

ServerError classify(unsigned number) noexcept {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const ServerError& e) { return e.number == number; });
  return found != known.end() ? *found : ServerError{number, Remedy::never, Errc::protocol, ""};
}

Error as_error(std::string_view what, std::string_view where, unsigned number,
               std::string_view text) {
  const ServerError e = classify(number);
  const std::string shown = printable(text.substr(0, 300));
  return {e.code,
          e.advice.empty()
              ? fmt::format("{} at {}: error {}: {}", what, where, number, shown)
              : fmt::format("{} at {}: error {}: {} ({})", what, where, number, shown, e.advice)};
}

Error as_login_error(std::string_view what, std::string_view where, unsigned number,
                     std::string_view text, std::string_view password) {
  const bool library = (number >= 2000 && number < 3000) || number >= 5000;
  const std::string_view said = library ? text : first_sentence(text);
  const bool repeats = !password.empty() && text.find(password) < said.size();
  return as_error(what, where, number, repeats ? "" : said);
}

}  // namespace dlock::mysql
