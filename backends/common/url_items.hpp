// SPDX-License-Identifier: Apache-2.0
// Shared by the URLs of several stores: reading their items, and the error for an invalid one.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include "store/factory.hpp"

namespace dlock {

// The settings of every store besides its own options.
struct StoreOptions {
  Duration op_timeout{}, connect_timeout{};
  int interrupt_fd = -1;
  std::string where;  // redacted URL
};

struct TlsOptions {
  enum class Verify { name, chain, nothing };  // the chain and the name, or less

  // PEM file or directory of hashed certificates; empty: those that the system trusts
  std::string ca{};
  std::string cert{}, key{};  // PEM; both or none
  std::string name{};         // for whom the certificate must be, and that is sent; empty: the host
  Verify verify = Verify::name;

  const std::string& name_of(const std::string& host) const { return name.empty() ? host : name; }
};

// For a server whose certificate was refused.
inline constexpr std::string_view tls_advice =
    "--tls-ca names the authority that signed the server's certificate, which must be for the host "
    "of the URL or for --tls-name";

bool asks_for_tls(const Url&);  // by ?tls=

struct Login {
  std::string user{}, password{};
  std::string password_file{};  // that it came from; empty: from none

  // Reads the file of the password again. True: it has another one, which is in `password` now.
  bool read_password_again();
};

// How to log in to servers.
struct LoginOptions : StoreOptions, Login {
  std::optional<TlsOptions> tls{};  // not of a client library that has options of its own
  Login sentinels{};                // of Redis; without a password: as of the servers

  bool read_password_again();  // of both
};

// The address of such a server: host and port, or a unix socket.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string socket{};  // path; when not empty, host and port are not used

  std::string text() const;  // "db1:6379", "[::1]:6379", "/run/redis.sock"
  bool operator==(const Endpoint&) const = default;
};

// Errc::usage: without a prefix every name in the store may be a key, so none can be listed.
Result<void> can_list(std::string_view prefix);

// Letters, digits, _ and $, at most 64: a name that needs no escapes between backquotes in SQL.
bool is_identifier(std::string_view) noexcept;

// Judges the items of one URL by their rows, keeps the first that is wrong, and reads them. All
// four outlive it.
class UrlItems {
 public:
  UrlItems(std::span<const UrlItem> rows, const Url&, const Traits&, const Settings&);

  // The value as one of this type.
  void judge(const UrlItem&, std::string_view called, std::string_view value);
  void wrong(std::string_view item, std::string_view value, std::string_view allowed);
  // Errc::usage with the URL, the item, its value and what is allowed. Only without it do the
  // following mean anything.
  Result<void> verdict() const;

  // Of the URL, else the usual value.
  std::string_view text(std::string_view item) const;
  bool yes(std::string_view item) const { return text(item) == "yes"; }
  unsigned number(std::string_view item) const;                   // none: 0
  std::optional<Duration> duration(std::string_view item) const;  // nullopt: none

  StoreOptions store_options() const;
  LoginOptions login_options() const;  // without TLS
  // ?prefix=, or what a recipe has without one: dlock's own keys have `native`.
  std::string prefix(std::string_view native) const;
  std::string password() const;  // of the settings, else of the URL
  // `by_scheme`: the scheme asks for it; `socket`: a unix socket has none; `how`: how a URL asks;
  // `usual`: the files where neither URL nor settings name them.
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
