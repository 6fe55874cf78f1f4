// SPDX-License-Identifier: Apache-2.0
// From --backend and --recipe to an open Backend. Main thread only.
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

  SecretFiles files;  // named in the URL
  Secrets secrets;

  // "--backend" or "DLOCK_BACKEND": the name to blame for errors in the URL that only prepare()
  // finds
  std::string called;
  Errc blame;

  Duration connect_timeout{};  // from the options, or from libpq's item in the URL

  Opener open{};  // not for bench, which prepares each recipe itself

  Result<Opener> prepare() const;
};

// Chooses backend and recipe by flag, URL item, environment, default, in this order. Errc::usage or
// Errc::config, by the source of the wrong text.
Result<Store> choose_store(const StoreOptions&);

// A chosen store that is open, for commands that send one request and end.
struct OpenStore {
  Store store;
  std::unique_ptr<Backend> backend;
  std::string options;  // the options that name this store in a suggested command for sh
};
Result<OpenStore> open_store(const StoreOptions&);

// The options of this command line or of the environment that say which store is meant and how to
// reach it, each after a space. Of secrets they contain only file names.
std::string store_options(const StoreOptions&);

// The place of the locks, for comparison with another dlock's: the URL with its prefix, without
// user, secrets and items that only say how to connect.
std::string place_of(const Store&);

// Refuses a --ttl shorter than shortest_ttl, unless the URL permits it.
Result<void> check_ttl(const StoreOptions&, const Store&);

// The keys in the given order; the option rules have checked that there is at least one.
Result<std::vector<Key>> parse_keys(const CommonOptions&);

struct Traced {
  std::string_view request;  // "release"
  std::string key{};         // empty: all
  std::optional<FencingToken> token{};
  std::optional<Owner> owner{};  // printed as a prefix of the id: the whole id is a secret
};

// Whether the request did what was asked.
inline bool succeeded(const Renewal& r) noexcept { return std::holds_alternative<Kept>(r); }
inline bool succeeded(Released r) noexcept { return r == Released::yes; }
inline bool succeeded(Validity v) noexcept { return v == Validity::valid; }
template <class View>
bool succeeded(const View&) noexcept {
  return true;
}

// Writes --trace for commands that send one request: a JSON object per line, before and after each
// request. A checker orders them by `t` (CLOCK_BOOTTIME, nanoseconds) among the lines of other
// processes.
class Trace {
 public:
  // Errc::cannot_create: the file cannot be opened. With an empty path nothing is written.
  static Result<Trace> open(std::string_view path);

  // Calls `call`, which returns a Result<T>, and writes a line before it (invoke) and after it (ok,
  // fail, or info if the outcome is unknown).
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
