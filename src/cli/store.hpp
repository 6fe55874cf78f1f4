// SPDX-License-Identifier: Apache-2.0
// From --backend and --recipe to an open Backend.
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

  SecretFiles files;  // of the URL
  Secrets secrets;

  // "--backend" or "DLOCK_BACKEND", for errors that only open() can find in the URL
  std::string called;
  Errc blame;

  Duration connect_timeout{};  // of the options, or of libpq's item in the URL

  Settings with_secrets(Settings) const;
  Result<std::unique_ptr<Backend>> open(const Settings&) const;  // with the secrets
};

// Flag, URL item, environment, default: in this order. Errc::usage or Errc::config, by the source
// of the wrong text.
Result<Store> choose_store(const Options&);

// The same, opened for the calling thread: for verbs that send one request and end.
struct OpenStore {
  Store store;
  std::unique_ptr<Backend> backend;
  std::string options;  // that name it in a command for sh, as this one was given them
};
Result<OpenStore> open_store(const Options&);

// The options of this command line, or of the environment, that say which store is meant and how it
// is reached, each with a space before it. No secret: of those only the names of files.
std::string store_options(const Options&);

// Where the locks are, for comparison with another dlock's: the URL with its prefix, without user,
// secrets and the items that only say how.
std::string place_of(const Store&);

// Blames --ttl when it is shorter than shortest_ttl and the URL does not permit that.
Result<void> long_enough(const Options&, const Store&);

// --key, in the given order; the rules have checked that there is one
Result<std::vector<Key>> parse_keys(const Options&);

struct Traced {
  std::string_view request;  // "release"
  std::string key{};         // empty: all
  std::optional<FencingToken> token{};
  std::optional<Owner> owner{};  // written as a prefix of the id, not the secret
};

// Whether the request did what was asked.
inline bool succeeded(const Renewal& r) noexcept { return std::holds_alternative<Kept>(r); }
inline bool succeeded(Released r) noexcept { return r == Released::yes; }
inline bool succeeded(Validity v) noexcept { return v == Validity::valid; }
template <class View>
bool succeeded(const View&) noexcept {
  return true;
}

// --trace for the verbs that send one request: one JSON object per line, before and after each
// request, so that a checker can order them by `t` (CLOCK_BOOTTIME, nanoseconds) among the lines of
// other processes.
class Trace {
 public:
  // Errc::cannot_create when the file cannot be opened. An empty path: nothing is written.
  static Result<Trace> open(std::string_view path);

  // Calls `call`, which returns a Result<T>, between two lines: invoke, then ok, fail or info (the
  // outcome is unknown).
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
