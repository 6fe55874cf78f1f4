// SPDX-License-Identifier: Apache-2.0
// Connections to a server (or to one node of a cluster), and statements over any free one. Every
// statement sent through here can be repeated without harm; so one that failed for a passing reason
// is retried until its deadline. After a deadline nothing is repeated; but each answer, those of a
// login too, has op_timeout, except of a server that was never reached: so a slow way may need
// several exchanges for one request.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "mysql/client/connection.hpp"

namespace dlock::mysql {

// The rows of a key in a recipe: those of `table` whose `column` has the key's name.
struct Rows {
  std::string table, column;
  std::string also{};  // a further condition, with its AND
  bool text = false;   // compared as text; else as bytes
};

class Client {
 public:
  explicit Client(Options options) : options_(std::move(options)) {}

  const Options& options() const noexcept { return options_; }
  // op_timeout from now, plus connect_timeout until the server has been reached once.
  Deadline usual_deadline() const noexcept;

  // An idle connection, or a new one. Its session has no named lock that another could wait for,
  // and no transaction. Errc::usage: the URL names several hosts that are not nodes of one Galera
  // cluster.
  Result<std::unique_ptr<Connection>> take(Deadline until);
  // The same, of a writable server. Errc::unavailable: none is.
  Result<std::unique_ptr<Connection>> take_writer(Deadline until);
  // For reuse. A connection with named locks, an outstanding answer or an error is dropped.
  void give_back(std::unique_ptr<Connection>);
  void drop(std::unique_ptr<Connection>);  // as abandon()

  // Runs `step` over a connection until it succeeds, fails for good or `until` has passed.
  // `schema`: created when a table is missing.
  template <class T>
  Result<T> run(Deadline until, std::string_view schema,
                const std::function<Result<T>(Connection&)>& step) {
    for (unsigned failures = 0;; ++failures) {
      auto c = take(until);
      if (!c) {
        if (!retryable(c.error().code) || !pause(failures, until))
          return fail(std::move(c.error()));
        continue;
      }
      auto done = attempt<T>(**c, until, schema, step);
      const bool again = !done && may_repeat(**c, done.error(), until, failures);
      give_back(std::move(*c));
      if (!again) return done;
    }
  }
  // Over the caller's connection: retries only what that connection can still do.
  template <class T>
  Result<T> run_on(Connection& c, Deadline until, std::string_view schema,
                   const std::function<Result<T>(Connection&)>& step) {
    for (unsigned failures = 0;; ++failures) {
      auto done = attempt<T>(c, until, schema, step);
      if (done || c.broken() || !may_repeat(c, done.error(), until, failures)) return done;
    }
  }

  // Runs `step` where a missing table holds nothing: T{}.
  template <class T>
  Result<T> run_if_there(const std::function<Result<T>(Connection&)>& step) {
    return run<T>(usual_deadline(), "", [&](Connection& c) -> Result<T> {
      auto done = step(c);
      if (!done && c.remedy() == Remedy::create) return T{};
      return done;
    });
  }
  // Ends a wait of that session in the server, by another session, and gives its answer; nullopt:
  // none came. An Error: of the other session, or of the wait.
  Result<std::optional<Answer>> end_wait(Connection&);

  // The table stays: other clients may be about to use it.
  Result<void> erase(const Rows&, const std::string& name);

  std::uint64_t statements() const noexcept;  // sent so far

 private:
  template <class T>
  Result<T> attempt(Connection& c, Deadline until, std::string_view schema,
                    const std::function<Result<T>(Connection&)>& step) {
    auto done = step(c);
    if (done || c.remedy() != Remedy::create || schema.empty() || c.broken()) return done;
    TRY_VOID(create(c, schema, until));
    return step(c);
  }
  Result<void> know_cluster(const Connection&, Deadline until);
  Result<void> same_cluster(const Connection&);
  Result<void> create(Connection&, std::string_view schema, Deadline until);
  bool may_repeat(const Connection&, const Error&, Deadline until, unsigned failures);
  bool pause(unsigned failures, Deadline until) const;

  Options options_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t server_ = 0;  // of options_.servers, the last one that answered
  bool ever_connected_ = false;
  // with several hosts: their cluster's UUID, and the host that reported it first
  std::string cluster_, cluster_at_;
  bool cluster_known_ = false;    // all hosts have been asked
  std::uint64_t statements_ = 0;  // of connections that are gone
  std::vector<const Connection*> out_;
};

}  // namespace dlock::mysql
