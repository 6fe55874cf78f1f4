// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/server_error.hpp"
#include <errmsg.h>
#include <fmt/format.h>
#include <mysqld_error.h>
#include <algorithm>
#include <iterator>
#include "common/url_items.hpp"
#include "core/text.hpp"

namespace dlock::mysql {
namespace {

// Error numbers that only the headers of one of the two families have.
constexpr unsigned mysql_session_was_killed = 3169, mysql_inactivity_timeout = 4031,
                   mysql_secure_transport_required = 3159, mysql_account_locked = 3118,
                   mysql_disabled_engine = 3161, mariadb_account_locked = 4151,
                   mariadb_connection_killed = 1927, mariadb_net_read = 5013,
                   mariadb_net_write = 5014, mariadb_plugin_not_allowed = 5010;

}  // namespace

ServerError classify(unsigned number, std::string_view text) noexcept {
  using enum Remedy;

  static constexpr std::string_view rights = "the rights dlock needs are in dlock-mysql(7)";

  static constexpr std::string_view engine = "the server forbids tables of this engine";

  // If the option is --read-only, --super-read-only or --innodb-read-only, another server may
  // accept writes, or this server may accept them later. Every other option stays until somebody
  // changes it.
  if (number == ER_OPTION_PREVENTS_STATEMENT && text.find("read-only") == text.npos)
    return {number, none, Errc::cannot_create, "an option of the server forbids this statement"};

  static constexpr ServerError known[] = {
      // Errors after which nothing was written.
      {ER_LOCK_WAIT_TIMEOUT, later, Errc::unavailable, "the row is locked for long"},
      {ER_LOCK_DEADLOCK, later, Errc::unavailable},
      {ER_USER_LOCK_DEADLOCK, later, Errc::unavailable},
      {mysql_lock_nowait, later, Errc::unavailable},
      {ER_UNKNOWN_STMT_HANDLER, later, Errc::unavailable},
      {ER_NEED_REPREPARE, later, Errc::unavailable},
      {ER_CHECKREAD, later, Errc::unavailable},
      {ER_ERROR_DURING_COMMIT, later, Errc::unavailable},
      // Too many connections, or no space.
      {ER_CON_COUNT_ERROR, elsewhere, Errc::unavailable,
       "each holder and waiter needs a connection: raise max_connections"},
      {ER_TOO_MANY_USER_CONNECTIONS, elsewhere, Errc::unavailable,
       "each holder and waiter needs a connection: raise max_user_connections"},
      {ER_USER_LIMIT_REACHED, elsewhere, Errc::unavailable,
       "each holder and waiter needs a connection: raise max_user_connections"},
      {ER_RECORD_FILE_FULL, elsewhere, Errc::unavailable},
      {ER_DISK_FULL, elsewhere, Errc::unavailable},
      // The server accepts no writes, or not yet.
      {ER_UNKNOWN_COM_ERROR, elsewhere, Errc::unavailable,
       "the node is not in a primary component of its cluster"},
      {ER_OPTION_PREVENTS_STATEMENT, elsewhere, Errc::unavailable,
       "a replica, or a server that was made read-only; locks live on the one that writes"},
      {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, elsewhere, Errc::unavailable,
       "the server is read-only"},
      {ER_READ_ONLY_MODE, elsewhere, Errc::unavailable, "the server is read-only"},
      {ER_HOST_IS_BLOCKED, elsewhere, Errc::unavailable, "mariadb-admin flush-hosts"},
      {CR_SOCKET_CREATE_ERROR, elsewhere, Errc::unavailable},
      {CR_CONNECTION_ERROR, elsewhere, Errc::unavailable},
      {CR_CONN_HOST_ERROR, elsewhere, Errc::unavailable},
      {CR_IPSOCK_ERROR, elsewhere, Errc::unavailable},
      {CR_UNKNOWN_HOST, elsewhere, Errc::unavailable},
      {CR_SERVER_HANDSHAKE_ERR, elsewhere, Errc::unavailable},
      // The connection is gone.
      {ER_SERVER_SHUTDOWN, reconnect, Errc::timed_out, "the server shuts down"},
      {ER_ABORTING_CONNECTION, reconnect, Errc::timed_out},
      {ER_NET_PACKETS_OUT_OF_ORDER, reconnect, Errc::timed_out},
      {ER_NET_UNCOMPRESS_ERROR, reconnect, Errc::timed_out},
      {ER_NET_READ_ERROR, reconnect, Errc::timed_out},
      {ER_NET_READ_INTERRUPTED, reconnect, Errc::timed_out},
      {ER_NET_ERROR_ON_WRITE, reconnect, Errc::timed_out},
      {ER_NET_WRITE_INTERRUPTED, reconnect, Errc::timed_out},
      {ER_QUERY_INTERRUPTED, later, Errc::unavailable, "the statement was killed"},
      {mariadb_connection_killed, reconnect, Errc::timed_out},
      {mysql_session_was_killed, reconnect, Errc::timed_out},
      {mysql_inactivity_timeout, reconnect, Errc::timed_out},
      {CR_SERVER_GONE_ERROR, reconnect, Errc::timed_out},
      {CR_SERVER_LOST, reconnect, Errc::timed_out},
      {CR_COMMANDS_OUT_OF_SYNC, reconnect, Errc::timed_out},
      {CR_MALFORMED_PACKET, reconnect, Errc::timed_out},
      {CR_SERVER_LOST_EXTENDED, reconnect, Errc::timed_out},
      {mariadb_net_read, reconnect, Errc::timed_out},
      {mariadb_net_write, reconnect, Errc::timed_out},
      // Tables.
      {ER_NO_SUCH_TABLE, create, Errc::cannot_create},
      {ER_UNKNOWN_STORAGE_ENGINE, none, Errc::cannot_create, engine},
      {mysql_disabled_engine, none, Errc::cannot_create, engine},
      {ER_BAD_DB_ERROR, none, Errc::cannot_create, "create the database first"},
      {ER_NO_DB_ERROR, none, Errc::usage, "name a database in the URL"},
      {ER_BAD_FIELD_ERROR, none, Errc::usage, "the table has other columns than this recipe needs"},
      {ER_TOO_LONG_IDENT, none, Errc::usage, "the name is too long"},
      {ER_NOT_SUPPORTED_YET, none, Errc::usage},
      {ER_DATA_TOO_LONG, none, Errc::usage, "the column is too short for this key"},
      {ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, none, Errc::usage, "the column cannot take this key"},
      {ER_SP_DOES_NOT_EXIST, none, Errc::usage, "this server is too old or none of MySQL's family"},
      // Rights.
      {ER_DBACCESS_DENIED_ERROR, none, Errc::denied, rights},
      {ER_ACCESS_DENIED_ERROR, none, Errc::denied,
       "user and password: the URL, --password-file, DLOCK_PASSWORD, MYSQL_PWD or ~/.my.cnf"},
      {ER_KILL_DENIED_ERROR, none, Errc::denied, "only its own user may end that connection"},
      {ER_HOST_NOT_PRIVILEGED, none, Errc::denied},
      {ER_TABLEACCESS_DENIED_ERROR, none, Errc::denied, rights},
      {ER_COLUMNACCESS_DENIED_ERROR, none, Errc::denied, rights},
      {ER_SPECIFIC_ACCESS_DENIED_ERROR, none, Errc::denied, rights},
      {ER_NOT_SUPPORTED_AUTH_MODE, none, Errc::denied},
      {ER_PROCACCESS_DENIED_ERROR, none, Errc::denied, rights},
      {ER_PLUGIN_IS_NOT_LOADED, none, Errc::denied},
      {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, none, Errc::denied},
      {ER_MUST_CHANGE_PASSWORD, none, Errc::denied, "the password has expired"},
      {ER_MUST_CHANGE_PASSWORD_LOGIN, none, Errc::denied, "the password has expired"},
      {mysql_account_locked, none, Errc::denied, "the account is locked"},
      {mysql_secure_transport_required, none, Errc::denied, "the server wants TLS: add ?tls=yes"},
      {mariadb_account_locked, none, Errc::denied, "the account is locked"},
      {CR_SSL_CONNECTION_ERROR, none, Errc::denied, tls_advice},
      {CR_SECURE_AUTH, none, Errc::denied},
      {CR_AUTH_PLUGIN_CANNOT_LOAD, none, Errc::denied},
      {CR_AUTH_PLUGIN_ERR, none, Errc::denied},
      {mariadb_plugin_not_allowed, none, Errc::denied,
       "it would show the password on the way: add ?tls=yes"},
  };
  const auto found = std::ranges::find(known, number, &ServerError::id);
  return found != std::end(known) ? *found : ServerError{number, none, Errc::protocol};
}

Error as_error(std::string_view what, std::string_view where, unsigned number,
               std::string_view text) {
  const ServerError e = classify(number, text);
  return refused(e.code, what, fmt::format("{}: error {}", where, number), text, e.advice);
}

Error as_login_error(std::string_view what, std::string_view where, unsigned number,
                     std::string_view text, std::string_view password) {
  const bool library = (number >= 2000 && number < 3000) || number >= 5000;
  const std::string_view said = library ? text : first_sentence(text);
  const bool repeats = !password.empty() && text.find(password) < said.size();
  return as_error(what, where, number, repeats ? "" : said);
}

}  // namespace dlock::mysql
