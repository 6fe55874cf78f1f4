// SPDX-License-Identifier: Apache-2.0
// Reads the items of store URLs, and reports invalid items. Several stores share this code.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include "store/factory.hpp"

namespace dlock {

// Settings that every store has.
struct StoreOptions {
  Duration op_timeout{}, connect_timeout{};
  int interrupt_fd = -1;
  std::string where;            // the URL without secrets
  bool is_on_loopback = false;  // no traffic leaves this machine
};

struct TlsOptions {
  enum class Verify { name, chain, nothing };  // verify chain and name, only the chain, or nothing

  // A PEM file or a directory of hashed certificates. Empty: the system's authorities.
  std::string ca{};
  std::string cert{}, key{};  // PEM files; both are set or neither
  std::string name{};         // the server name to send and to verify; empty: the host
  Verify verify = Verify::name;

  const std::string& name_of(const std::string& host) const { return name.empty() ? host : name; }
};

// Advice when a server's certificate was refused.
inline constexpr std::string_view tls_advice =
    "--tls-ca names the authority that signed the server's certificate, which must be for the host "
    "of the URL or for --tls-name, unless the URL says verify-ca";

bool asks_for_tls(const Url&);    // returns whether ?tls= asks for TLS
bool is_on_loopback(const Url&);  // returns whether all hosts of the URL are loopback addresses

struct Login {
  std::string user{}, password{};
  // The file that the password came from; empty: the password has another source.
  std::string password_file{};

  // Reads the password file again. True: the password has changed, and `password` is the new one.
  bool read_password_again();
};

// How to log in to servers.
struct LoginOptions : StoreOptions, Login {
  std::optional<TlsOptions> tls{};  // not set for a client library that has its own TLS options
  Login sentinels{};  // for sentinels; if it has no password, they get the login of the servers

  bool read_password_again();  // reads the passwords of the servers and of the sentinels
};

// The address of a server: host and port, or a unix socket.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string socket{};  // a path; if it is not empty, host and port are not used

  std::string text() const;  // "db1:6379", "[::1]:6379", "/run/redis.sock"
  bool operator==(const Endpoint&) const = default;
};

// Returns whether keys can be listed. Errc::usage: the prefix is empty, so any name in the store
// may be a key.
Result<void> can_list(std::string_view prefix);

// Returns whether the text is 1 to 64 letters, digits, _ and $. Such a name needs no escapes
// between backquotes in SQL.
bool is_identifier(std::string_view) noexcept;

// Returns an Opener, which calls `open` with a copy of `options`. The Opener writes its own
// arguments, the time limit and the interrupt descriptor, into the copy.
template <class Options, class Open>
Opener opener(Options options, Open open) {
  return [options = std::move(options), open](Duration op_timeout, int interrupt_fd) {
    Options own = options;
    own.op_timeout = op_timeout;
    own.interrupt_fd = interrupt_fd;
    return open(std::move(own));
  };
}

// Checks each item of a URL by its row (UrlItem), keeps the first error, and reads the values. All
// four arguments must outlive this object.
class UrlItems {
 public:
  UrlItems(std::span<const UrlItem> rows, const Url&, const Traits&, const Settings&);

  // Checks a value by the type in its row. `called`: the name of the item in an error.
  void judge(const UrlItem&, std::string_view called, std::string_view value);
  // Keeps the error that this value of the item is not allowed, if it is the first error.
  void wrong(std::string_view item, std::string_view value, std::string_view allowed);
  // Errc::usage: the message names the URL, the item, its value and what is allowed. Call the
  // functions below only if there is no error.
  Result<void> verdict() const;

  // Returns the URL's value, or the row's default.
  std::string_view text(std::string_view item) const;
  bool yes(std::string_view item) const { return text(item) == "yes"; }
  unsigned number(std::string_view item) const;                   // 0 if there is none
  std::optional<Duration> duration(std::string_view item) const;  // nullopt: not given

  StoreOptions store_options() const;
  LoginOptions login_options() const;  // everything except TLS
  // Returns the value of ?prefix=. Without this item it returns `native` for a native recipe, and
  // an empty string for other recipes.
  std::string prefix(std::string_view native) const;
  std::string password() const;  // from the settings, else from the URL
  // `by_scheme`: the scheme asks for TLS. `socket`: the server is on a unix socket, which has no
  // TLS. `how`: says in a message how a URL can ask for TLS. `usual`: the files to use if neither
  // URL nor settings name any.
  std::optional<TlsOptions> tls(bool by_scheme, bool socket, std::string_view how,
                                const TlsOptions& usual = {});

 private:
  const std::span<const UrlItem> rows_;
  const Url& url_;
  const Traits& traits_;
  const Settings& settings_;
  std::string wrong_;
};

}  // namespace dlock
