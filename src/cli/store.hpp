// SPDX-License-Identifier: Apache-2.0
// Opens the Backend that --backend and --recipe name. Main thread only.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include "cli/options/options.hpp"
#include "cli/secrets.hpp"
#include "core/url.hpp"
#include "store/factory.hpp"
#include "util/fd.hpp"

namespace dlock::cli {

struct Store {
  Url url;
  const BackendFactory* factory;
  const Traits* traits;

  SecretFiles files;  // the files that the URL names
  Secrets secrets;

  // For errors in the URL that are found later. called: where the URL comes from, such as
  // "--backend" or "DLOCK_BACKEND". blame: the code of such an error.
  std::string called;
  Errc blame;

  Duration connect_timeout{};  // from the options, or from libpq's item in the URL

  Opener open{};  // empty in bench, which prepares each recipe itself

  Result<Opener> prepare() const;
};

// Chooses backend and recipe. The order is: flag, URL item, environment, default. If a text is
// wrong, the error is Errc::usage or Errc::config, which depends on the source of the text.
Result<Store> choose_store(const StoreOptions&);

// A chosen store that is open, for commands that send one request and end.
struct OpenStore {
  Store store;
  std::unique_ptr<Backend> backend;
  std::string options;  // options that name this store, quoted for sh, for a suggested command
};
Result<OpenStore> open_store(const StoreOptions&);

// Returns the options that name the store and say how to reach it, each after a space. They come
// from this command line or from the environment. They contain the names of secret files, but no
// secrets.
std::string store_options(const StoreOptions&);

// Returns the place of the locks, for comparison with the place of another dlock: the URL with its
// prefix, without user, secrets and items that only say how to connect.
std::string place_of(const Store&);

// Refuses a --ttl shorter than shortest_ttl, unless the URL permits it.
Result<void> check_ttl(const StoreOptions&, const Store&);

// Returns the keys in the given order. The option rules have checked that there is at least one.
Result<std::vector<Key>> parse_keys(const CommonOptions&);

struct Traced {
  std::string_view request;  // "release"
  std::string key{};         // empty: the request is about all keys
  std::optional<FencingToken> token{};
  std::optional<Owner> owner{};  // Only a prefix of the id is printed, because the id is a secret.
};

// Returns whether the request did what was asked.
inline bool succeeded(const Renewal& r) noexcept { return std::holds_alternative<Kept>(r); }
inline bool succeeded(Released r) noexcept { return r == Released::yes; }
inline bool succeeded(Validity v) noexcept { return v == Validity::valid; }
template <class View>
bool succeeded(const View&) noexcept {
  return true;
}

// Writes --trace for commands that send one request: a JSON object per line, before and after each
// request. A checker merges the lines with those of other processes, by `t` (CLOCK_BOOTTIME,
// nanoseconds).
class Trace {
 public:
  // Errc::cannot_create: the file cannot be opened. With an empty path nothing is written.
  static Result<Trace> open(std::string_view path);

  // Calls `call`, which returns a Result<T>. It writes a line before the call (invoke) and after it
  // (ok, fail, or info if the outcome is unknown).
  template <class Call>
  auto around(const Traced& what, Call call) const {
    write("invoke", what, {});
    auto answer = call();
    if (answer) write(succeeded(*answer) ? "ok" : "fail", what, {});
    else write(retryable(answer.error().code) ? "info" : "fail", what, answer.error().message);
    return answer;
  }

 private:
  explicit Trace(Fd fd) : fd_(std::move(fd)) {}
  void write(std::string_view event, const Traced&, std::string_view error) const;

  Fd fd_;
};

}  // namespace dlock::cli
