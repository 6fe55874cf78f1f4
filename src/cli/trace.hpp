// SPDX-License-Identifier: Apache-2.0
// --trace for the verbs that send one request: one JSON object per line, before and after each
// request, so that a checker can order them by `t` (CLOCK_BOOTTIME, nanoseconds) among the lines of
// other processes.
#pragma once
#include <string>
#include <string_view>
#include "cli/options/options.hpp"
#include "util/fd.hpp"

namespace dlock::cli {

struct Traced {
  std::string_view request;  // "release"
  std::string key{};         // empty: all
  std::optional<FencingToken> token{};
  std::string owner{};  // a prefix of the owner id, not the secret
};

class Trace {
 public:
  // Errc::cannot_create when the file cannot be opened. An empty path: nothing is written.
  static Result<Trace> open(std::string_view path);

  // Calls `ask`, which returns a Result<T>, between two lines: invoke, then ok, fail or info (the
  // outcome is unknown).
  template <class Ask, class Kept>
  auto around(const Traced& what, Ask ask, Kept succeeded) const {
    write("invoke", what, {});
    auto answer = ask();
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
