// SPDX-License-Identifier: Apache-2.0
// Shared by the URLs of several stores: reading their items, and the error for an invalid one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include "core/factory.hpp"

namespace dlock {

// The settings of every store besides its own options.
struct StoreOptions {
  Duration op_timeout{}, connect_timeout{};
  int interrupt_fd = -1;
  std::string where;  // redacted URL
};

struct TlsOptions {
  // PEM file or directory of hashed certificates; empty: those that the system trusts
  std::string ca;
  std::string cert, key;  // PEM; both or none
  bool insecure = false;  // verify nothing (--tls-insecure)
};

// How to reach and log in to servers that dlock speaks to over sockets of its own (net/).
struct LoginOptions : StoreOptions {
  std::string user, password;
  std::string password_file;  // that it came from; empty: from none
  std::optional<TlsOptions> tls;
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

// Reads the items of one URL and keeps the first that is wrong; the readers then answer "not
// there". All three outlive it.
class UrlItems {
 public:
  UrlItems(const Url& url, const Traits& traits, const Settings& settings)
      : url_(url), traits_(traits), settings_(settings) {}

  void wrong(std::string_view item, std::string_view value, std::string_view allowed);
  // Errc::usage with the URL, the item, its value and what is allowed.
  Result<void> verdict() const;

  std::optional<std::string_view> text(std::string_view item) const { return url_.item(item); }
  // An item of these recipes alone, "lease insert".
  std::optional<std::string_view> only(std::string_view item, std::string_view recipes);
  std::optional<bool> yes_no(std::string_view item);
  std::optional<unsigned> number(std::string_view item, unsigned most);
  std::optional<unsigned> number(std::string_view called, std::string_view text, unsigned most);
  // `allowed`: what a duration of at least `least` is called in a refusal.
  std::optional<Duration> duration(std::string_view item, Duration least, std::string_view allowed);

  StoreOptions store_options() const;
  // ?prefix=, or what a recipe has without one: dlock's own keys have `native`.
  std::string prefix(std::string_view native) const;
  std::string password() const;  // of the settings, else of the URL
  // `by_scheme`: the scheme asks for it; `socket`: a unix socket has none; `how`: how a URL asks.
  std::optional<TlsOptions> tls(bool by_scheme, bool socket, std::string_view how);
  // Of a store that is not reached by TLS.
  void no_tls(std::string_view allowed);

 private:
  const Url& url_;
  const Traits& traits_;
  const Settings& settings_;
  std::string wrong_;
};

}  // namespace dlock
