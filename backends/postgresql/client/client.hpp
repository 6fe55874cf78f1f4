// SPDX-License-Identifier: Apache-2.0
// Connections to the server, and steps over any free one. Every step that goes through here can be
// repeated without harm; so one that failed for a passing reason is retried until its deadline.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "postgresql/client/connection.hpp"
#include "postgresql_schema/schema.hpp"

namespace dlock::postgresql {

class Client {
 public:
  // `schema`: the tables that are made when they are missing.
  explicit Client(Options options, std::string_view schema = schema::lease)
      : options_(std::move(options)), schema_(schema) {}

  const Options& options() const noexcept { return options_; }
  // op_timeout from now, plus connect_timeout until the server has been reached once.
  Deadline usual_deadline() const noexcept;

  // An idle connection without advisory locks (but for its bell), or a new one. Errc::unavailable:
  // no server of the URL writes, if `writer`.
  Result<std::unique_ptr<Connection>> take(Deadline until, bool writer = true);
  Result<std::unique_ptr<Connection>> take_writer(Deadline until) { return take(until); }
  // For reuse. One with advisory locks, an outstanding answer or an error is dropped.
  void give_back(std::unique_ptr<Connection>);
  void drop(std::unique_ptr<Connection>);

  // Runs `step` over a connection until it succeeds, fails for good or `until` has passed. A
  // missing table is made, if `make`.
  template <class T>
  Result<T> run(Deadline until, bool make, const std::function<Result<T>(Connection&)>& step) {
    for (unsigned failures = 0;; ++failures) {
      auto c = take(until);
      if (!c) {
        if (!retryable(c.error().code) || !pause(failures, until)) return fail(c.error());
        continue;
      }
      auto done = run_on<T>(**c, until, make, step);
      const bool stale = (*c)->used;
      const Remedy remedy = (*c)->remedy();
      const bool silent = (*c)->sqlstate().empty();
      give_back(std::move(*c));
      if (done || !retryable(done.error().code)) return done;
      // One that waited too long has used its time; a session that broke is replaced.
      if (silent && !(stale && Clock::now() < until)) return done;
      if (remedy == Remedy::elsewhere && options_.servers.size() == 1) return done;
      if (!pause(failures, until)) return done;
    }
  }
  // Over the caller's connection, once.
  template <class T>
  Result<T> run_on(Connection& c, Deadline until, bool make,
                   const std::function<Result<T>(Connection&)>& step) {
    auto done = step(c);
    if (done || !make || c.broken() || c.remedy() != Remedy::create) return done;
    TRY_VOID(create(c, until));
    return step(c);
  }

  // Runs `step` where a missing table holds nothing: T{}.
  template <class T>
  Result<T> run_if_there(const std::function<Result<T>(Connection&)>& step) {
    return run<T>(usual_deadline(), false, [&](Connection& c) -> Result<T> {
      auto done = step(c);
      if (!done && c.remedy() == Remedy::create) return T{};
      return done;
    });
  }

  std::uint64_t exchanges() const noexcept;  // so far

 private:
  Result<void> create(Connection&, Deadline until);
  bool pause(unsigned failures, Deadline until) const;

  Options options_;
  const std::string_view schema_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t server_ = 0;  // of options_.servers, the last one that answered
  bool ever_connected_ = false;
  std::uint64_t exchanges_ = 0;  // of connections that are gone
  std::vector<const Connection*> out_;
};

}  // namespace dlock::postgresql
