// SPDX-License-Identifier: Apache-2.0
// From a URL to a Backend: what each family of stores offers, and the choice among them.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "store/backend.hpp"

namespace dlock {

// The credentials and TLS files for a store. What came from a file is read again from there when
// the store refuses it.
struct Secrets {
  // empty: the URL's, then the service's own source (a variable, a file)
  std::string password{};
  std::string auth{};                        // ZooKeeper: scheme:credential
  std::string password_file{}, auth_file{};  // where they came from; empty: from no file
  // of sentinels; empty: as above
  std::string sentinel_password{}, sentinel_password_file{};
  std::string tls_ca{}, tls_cert{}, tls_key{};  // paths; empty: the URL items of the same names
  std::string tls_name{};                       // the certificate's; empty: the URL item's
  bool tls_insecure = false;                    // verify no certificate
};

struct Settings : Secrets {
  Duration op_timeout{5'000'000};  // one exchange with the store
  Duration connect_timeout{5'000'000};
  // poll(2)-able; readable: every wait returns early. The backend does not read from it
  int interrupt_fd = -1;
};

// What a URL can use of Secrets, and its usual port.
struct Access {
  std::uint16_t port = 0;  // of a host without one
  // why it has no use for these; empty: it has
  std::string_view no_password{}, no_auth{}, no_tls{};
  std::string_view no_sentinels = "it has no sentinels";
  std::string_view in_clear{};  // a warning for who logs in; empty: none
};

// Items of a store's URLs, `?name=value`, that differ in nothing but their names. What judges them,
// and what reads them, asks this row; a test compares it with the store's page of the manual.
struct UrlItem {
  enum Type { text, yes_no, number, duration, choice, identifier, host };
  std::string_view names;  // "tls_ca tls_cert tls_key"; `where.`: every `where.NAME`
  Type type = text;
  // of a number: the greatest, "1000"; a duration: the least, "1s", or empty: any above 0; a
  // choice: the values, "named poll"
  std::string_view range{};
  std::string_view usual{};    // the value in a URL that has none; empty: none
  std::string_view recipes{};  // that know it, "lease insert"; empty: all
  std::string_view allowed{};  // so a refusal says what is allowed, where the type does not
  // only for a URL with a unix socket; where others have it: "/DB behind the host"
  std::string_view elsewhere{};

  bool covers(std::string_view name) const noexcept;
};

// Of every store whose TLS is dlock's own or MySQL's.
inline constexpr UrlItem tls_item{"tls", UrlItem::choice,       "yes no verify-ca", "",
                                  "",    "yes, no or verify-ca"};
inline constexpr UrlItem tls_files_item{"tls_ca tls_cert tls_key"};
// of PostgreSQL, too
inline constexpr UrlItem tls_name_item{"tls_name", UrlItem::host};

struct BackendFactory {
  std::string_view family;
  std::span<const std::string_view> schemes;  // first is the canonical one
  std::span<const Traits> recipes;            // first is the default
  std::span<const UrlItem> items;             // besides those of all: `recipe`, `prefix`, ...
  // Judges everything in the URL that can be judged without a connection (Errc::usage;
  // Errc::config: a file or variable that it needs is wrong).
  Result<void> (*check)(const Url&, const Traits&, const Settings&);
  // Checks the URL, too, and connects no earlier than the first call. `url` may be destroyed after
  // the call: copy what you need.
  Result<std::unique_ptr<Backend>> (*open)(const Url&, const Traits&, const Settings&);
  // The client libraries that it uses, with the versions that run now: "OpenSSL 3.0.17". nullptr:
  // none, or they are another family's.
  std::vector<std::string> (*libraries)() = nullptr;
  std::string_view note{};                 // for --version: "no TLS, no SASL"
  Access (*access)(const Url&) = nullptr;  // nullptr: this family has no use for Secrets
  // what does not exist yet and a first lock would make at a place that the user has named, which
  // may be misspelt; empty: nothing. `locks`: a lock follows, which says itself why it makes nothing
  std::string (*makes)(const Url&, const Traits&, bool locks) = nullptr;
  // Puts what other clients of this store write into the form that all else here knows. What it
  // cannot put so it leaves, and check() refuses it.
  void (*translate)(Url&) = nullptr;
};

// One explicit table, the lines dlock_backend() of backends/CMakeLists.txt; no self-registration.
std::span<const BackendFactory> backends() noexcept;

// Families that this binary was built without, with the CMake option that adds them (its bare
// name).
struct AbsentBackend {
  std::string_view family, option;
  std::span<const std::string_view> schemes;
};
std::span<const AbsentBackend> absent_backends() noexcept;

// The client libraries of all backends of this binary.
std::vector<std::string> libraries();

// The factory and recipe of a URL (`?recipe=`, overridden by a non-empty `recipe`). Errc::usage:
// unknown scheme, item or recipe, with the list of known ones; or not built in, with the way to get
// it.
struct Choice {
  const BackendFactory* factory;
  const Traits* traits;
};
Result<Choice> choose(const Url&, std::string_view recipe);

// Url::parse(), and the translate() of its scheme.
Result<Url> parse_backend(std::string_view text);

}  // namespace dlock
