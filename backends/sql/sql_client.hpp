// SPDX-License-Identifier: Apache-2.0
// The sessions of a database server (or of one node of a cluster), and steps over any free one.
// Every step that goes through here can be repeated without harm; so one that failed for a passing
// reason is retried until its deadline.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "common/exchange.hpp"
#include "core/text.hpp"

namespace dlock {

// `Options`: LoginOptions with `servers` and `database`.
template <class Options, class Session>
class SqlClient {
 public:
  using Connection = Session;
  template <class T>
  using Step = std::function<Result<T>(Connection&)>;

  // `schema`: the tables that are made when they are missing.
  SqlClient(Options options, std::string_view schema)
      : options_(std::move(options)), schema_(schema) {}
  virtual ~SqlClient() = default;
  SqlClient(const SqlClient&) = delete;
  SqlClient& operator=(const SqlClient&) = delete;

  const Options& options() const noexcept { return options_; }
  // op_timeout from now, plus connect_timeout until the server has been reached once.
  Deadline usual_deadline() const noexcept {
    return later(Clock::now(),
                 options_.op_timeout + (ever_connected_ ? Duration{} : options_.connect_timeout));
  }
  std::uint64_t exchanges() const noexcept {  // so far
    std::uint64_t n = exchanges_;
    for (const auto& c : idle_) n += c->exchanges();
    for (const Connection* c : out_) n += c->exchanges();
    return n;
  }

  // An idle session, or a new one. It has no lock that another could wait for, and no transaction.
  // `any`: one that cannot write will do.
  Result<std::unique_ptr<Connection>> connection(Deadline until, bool any = false) {
    if (!idle_.empty()) {
      auto c = std::move(idle_.back());
      idle_.pop_back();
      out_.push_back(c.get());
      return c;
    }
    Error last{Errc::unavailable, "no time was left to connect"};
    for (std::size_t tried = 0; tried < options_.servers.size(); ++tried) {
      const Duration left = std::chrono::duration_cast<Duration>(until - Clock::now());
      if (left <= Duration{} && tried > 0) break;
      // With several servers none may use up the time of the others. One that was reached before
      // may be far away.
      const Duration share = std::max<Duration>(left, Duration{1'000}) /
                             static_cast<Duration::rep>(options_.servers.size() - tried);
      const bool alone = ever_connected_ && options_.servers.size() == 1;
      auto c = open(alone ? nullptr : &share);
      if (!c && c.error().code == Errc::denied && options_.read_password_again())
        c = open(alone ? nullptr : &share);
      auto fits = c ? fit(**c, any, until) : Result<void>(fail(std::move(c.error())));
      if (fits) {
        ever_connected_ = true;
        out_.push_back(c->get());
        return c;
      }
      last = std::move(fits.error());
      if (!retryable(last.code)) break;
      next_server();
    }
    return fail(std::move(last));
  }
  // For reuse. One with locks, an outstanding answer or an error is dropped.
  virtual void give_back(std::unique_ptr<Connection>) = 0;
  void drop(std::unique_ptr<Connection> c) {
    if (!c) return;
    std::erase(out_, c.get());
    exchanges_ += c->exchanges();
  }
  // One whose wait in the server was ended.
  virtual void drop_waiting(std::unique_ptr<Connection> c, Deadline) { drop(std::move(c)); }

  // Runs `step` over a session until it succeeds, fails for good or `until` has passed. A missing
  // table is made, if `make`.
  template <class T>
  Result<T> run(Deadline until, bool make, const Step<T>& step) {
    for (unsigned failures = 0;; ++failures) {
      auto c = connection(until);
      if (!c) {
        if (!retryable(c.error().code) || !pause(failures, until))
          return fail(std::move(c.error()));
        continue;
      }
      auto done = attempt<T>(**c, until, make, step);
      const bool again = !done && may_repeat(**c, done.error(), until, failures);
      give_back(std::move(*c));
      if (!again) return done;
    }
  }
  // Over the caller's session: retries only what that session can still do.
  template <class T>
  Result<T> run_on(Connection& c, Deadline until, bool make, const Step<T>& step) {
    for (unsigned failures = 0;; ++failures) {
      auto done = attempt<T>(c, until, make, step);
      if (done || !Connection::outlives_errors || c.broken()) return done;
      if (!may_repeat(c, done.error(), until, failures)) return done;
    }
  }
  // Runs `step` where a missing table holds nothing: T{}.
  template <class T>
  Result<T> run_if_there(const Step<T>& step) {
    return run<T>(usual_deadline(), false, [&](Connection& c) -> Result<T> {
      auto done = step(c);
      if (!done && c.remedy() == Remedy::create) return T{};
      return done;
    });
  }

 protected:
  static constexpr std::size_t most_idle = 4;

  // A connection to the server of the next attempt. `share`: of the time, where there are others to
  // try; null: it was reached before, and there is no other.
  virtual Result<std::unique_ptr<Connection>> open(const Duration* share) = 0;
  // Whether it is the right server.
  virtual Result<void> fit(Connection&, bool any, Deadline until) = 0;
  // Whether a step that failed may be repeated; waits a moment before that.
  virtual bool may_repeat(const Connection&, const Error&, Deadline until, unsigned failures) = 0;
  virtual Result<void> create(Connection&, Deadline until) = 0;

  void next_server() noexcept { server_ = (server_ + 1) % options_.servers.size(); }
  bool pause(unsigned failures, Deadline until) const {
    const Duration d = pause_after(failures);
    return later(Clock::now(), d) < until && nap(d, options_.interrupt_fd);
  }
  // The tables could not be created.
  Error no_tables(const Error& why) const {
    std::string one_line{schema_};
    std::replace(one_line.begin(), one_line.end(), '\n', ' ');
    return {Errc::cannot_create,
            fmt::format("{}. An account with that right must run in database {}: {}", why.message,
                        printable(options_.database), one_line)};
  }

  Options options_;
  const std::string_view schema_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::vector<const Connection*> out_;
  std::size_t server_ = 0;  // of options_.servers, the last one that answered
  bool ever_connected_ = false;
  std::uint64_t exchanges_ = 0;  // of sessions that are gone

 private:
  template <class T>
  Result<T> attempt(Connection& c, Deadline until, bool make, const Step<T>& step) {
    auto done = step(c);
    if (done || c.remedy() != Remedy::create || !make || schema_.empty() || c.broken()) return done;
    TRY_VOID(create(c, until));
    return step(c);
  }
};

}  // namespace dlock
