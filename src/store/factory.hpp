// SPDX-License-Identifier: Apache-2.0
// Describes what each family of stores offers, chooses the family for a URL, and makes a Backend.
// The main thread judges a URL (choose(), prepare()) before any other thread starts; an Opener may
// run on the Keeper's thread. Everything else is constant data and functions without state.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "store/backend.hpp"

namespace dlock {

// The credentials and TLS files for a store. If the store refuses a secret that came from a file,
// the Backend reads the file again.
struct Secrets {
  // Empty: use the password in the URL, else the service's own source (a variable, a file).
  std::string password{};
  std::string auth{};                        // ZooKeeper: scheme:credential
  std::string password_file{}, auth_file{};  // the files that contain these secrets; empty: none
  // For sentinels. If sentinel_password is empty, sentinels get the login of the servers.
  std::string sentinel_password{}, sentinel_password_file{};
  std::string tls_ca{}, tls_cert{}, tls_key{};  // paths; empty: use the URL items of these names
  std::string tls_name{};     // the name in the server's certificate; empty: use the URL item
  bool tls_insecure = false;  // whether certificates stay unverified
};

struct Settings : Secrets {
  Duration op_timeout{5'000'000};  // the longest time of one exchange with the store
  Duration connect_timeout{5'000'000};
  // A descriptor for poll(2). While it is readable, every wait returns early. The Backend does not
  // read from it.
  int interrupt_fd = -1;
};

// Says which of the Secrets a URL can use, and its default port.
struct Access {
  std::uint16_t port = 0;  // for a host without a port
  // Why the URL cannot use a password, credentials or TLS files; empty: it can.
  std::string_view no_password{}, no_auth{}, no_tls{};
  std::string_view no_sentinels = "it has no sentinels";
  std::string_view in_clear{};  // a warning for users who log in without TLS; empty: none
};

// URL items (`?name=value`) that share one rule. To add an item to a store, add a row to `items` in
// its factory.hpp, and read the value in its options.cpp. All code that checks or reads items uses
// these rows. A test compares them with the store's manual page.
struct UrlItem {
  enum Type { text, yes_no, number, duration, choice, identifier, host };
  // "tls_ca tls_cert tls_key". A dot at the end, as in "where.", means all names that begin so.
  std::string_view names;
  Type type = text;
  // For a number: the greatest value, "1000". For a duration: the least value, "1s"; empty means
  // any duration above 0. For a choice: the values, "named poll".
  std::string_view range{};
  std::string_view usual{};    // the default value; empty: none
  std::string_view recipes{};  // the recipes with this item, "lease insert"; empty: all
  // How an error message describes the allowed values. If it is empty, the type decides this.
  std::string_view allowed{};
  // Not empty: only a URL with a unix socket may have the item. For other URLs the text says where
  // the value belongs: "/DB behind the host".
  std::string_view elsewhere{};

  bool covers(std::string_view name) const noexcept;
};

// For MySQL, and for every store to which dlock itself speaks TLS.
inline constexpr UrlItem tls_item{"tls", UrlItem::choice,       "yes no verify-ca", "",
                                  "",    "yes, no or verify-ca"};
inline constexpr UrlItem tls_files_item{"tls_ca tls_cert tls_key"};
// For the same stores, and for PostgreSQL.
inline constexpr UrlItem tls_name_item{"tls_name", UrlItem::host};

// Makes a Backend for a URL that prepare() has judged. The Backend connects at its first call.
// `op_timeout` and `interrupt_fd` replace those of the Settings.
using Opener =
    std::function<Result<std::unique_ptr<Backend>>(Duration op_timeout, int interrupt_fd)>;

struct BackendFactory {
  std::string_view family;
  std::span<const std::string_view> schemes;  // the first is the canonical scheme
  std::span<const Traits> recipes;            // the first is the default
  std::span<const UrlItem> items;             // all stores also know `recipe`, `prefix`, ...
  // Judges everything in the URL that can be judged without a connection. Errc::usage: the URL is
  // wrong. Errc::config: a file or variable that the URL needs is wrong. The Opener keeps a
  // reference to the Traits.
  Result<Opener> (*prepare)(const Url&, const Traits&, const Settings&);
  // Returns the client libraries that the family uses, with the versions that are loaded: "OpenSSL
  // 3.0.17". nullptr: the family uses none, or another family lists them.
  std::vector<std::string> (*libraries)() = nullptr;
  std::string_view note{};                 // for --version: "no TLS, no SASL"
  Access (*access)(const Url&) = nullptr;  // nullptr: this family cannot use Secrets
  // Returns a warning if the place that the URL names, such as a lock directory, does not exist and
  // the first lock would create it, because the name may be misspelt. Empty: no warning. `locks`:
  // the command takes a lock. Then there is no warning about a place that cannot be created,
  // because the command itself will report this.
  std::string (*makes)(const Url&, const Traits&, bool locks) = nullptr;
  // Rewrites URL forms of other clients of this store into the form that dlock knows. Forms that it
  // does not know stay unchanged, and prepare() refuses them.
  void (*normalize_url)(Url&) = nullptr;

  Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits,
                                        const Settings& settings) const {
    TRY(opener, prepare(url, traits, settings));
    return opener(settings.op_timeout, settings.interrupt_fd);
  }
};

// Returns all families of this binary. CMake makes the table from the dlock_backend() lines in
// backends/CMakeLists.txt; no family registers itself.
std::span<const BackendFactory> backends() noexcept;

// A family that this binary was built without; `option`: its CMake option, without -D.
struct AbsentBackend {
  std::string_view family, option;
  std::span<const std::string_view> schemes;
};
std::span<const AbsentBackend> absent_backends() noexcept;

// Returns the client libraries of all families in this binary.
std::vector<std::string> libraries();

// Chooses the factory and recipe for a URL. A non-empty `recipe` overrides `?recipe=`. Errc::usage:
// an unknown scheme, item or recipe. The message lists the known ones, or says how to build dlock
// with the family.
struct Choice {
  const BackendFactory* factory;
  const Traits* traits;
};
Result<Choice> choose(const Url&, std::string_view recipe);

// Parses a URL and applies the normalize_url() of its family.
Result<Url> parse_backend(std::string_view text);

}  // namespace dlock
