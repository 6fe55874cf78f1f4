// SPDX-License-Identifier: Apache-2.0
// The sessions of a database server (or of one node of a cluster), and steps that run over any free
// session. Every step here can be repeated without harm. So a step that failed for a passing reason
// is retried until its deadline. Only the thread that owns the Backend calls these functions.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "common/url_items.hpp"
#include "sql/sql_session.hpp"
#include "store/backend.hpp"

namespace dlock {

// The settings in the URL of every database.
struct SqlOptions : LoginOptions {
  std::string database;
  std::string prefix;     // of every key
  bool poll = false;      // wake=poll: waiters poll
  Duration clock_skew{};  // Galera: the greatest difference between the clocks of two nodes
};

class SqlClient {
 public:
  // `servers`: how many servers the URL names. `schema`: the SQL that creates missing tables.
  SqlClient(std::size_t servers, std::string_view schema) : servers_(servers), schema_(schema) {}
  virtual ~SqlClient() = default;
  SqlClient(const SqlClient&) = delete;
  SqlClient& operator=(const SqlClient&) = delete;

  virtual const SqlOptions& options() const noexcept = 0;
  // Returns now + op_timeout. Until a server has been reached once, it adds connect_timeout.
  Deadline usual_deadline() const noexcept;
  std::uint64_t exchanges() const noexcept;  // of all sessions so far

  // Returns an idle session, or a new session. The session has no transaction, and no lock that
  // another session could wait for. `any`: the server may be read-only.
  Result<std::unique_ptr<SqlSession>> session(Deadline until, bool any = false);
  // Returns a session as session() does, but of a writable server. Errc::unavailable: no server is
  // writable.
  virtual Result<std::unique_ptr<SqlSession>> writable_session(Deadline until) {
    return session(until);
  }
  // Keeps the session for reuse. A session with locks, an outstanding reply or an error is dropped.
  virtual void give_back(std::unique_ptr<SqlSession>) = 0;
  void drop(std::unique_ptr<SqlSession>);
  // Ends the session's wait in the server, and returns 0. If only a statement of another session
  // can end the wait, does nothing and returns the number of the session that waits.
  virtual int end_wait(SqlSession*) = 0;
  // Drops a session that may wait in the server. If only a statement of another session can end the
  // wait, has it ended first; the Deadline limits this.
  virtual void drop_waiting(std::unique_ptr<SqlSession> s, Deadline) { drop(std::move(s)); }

  // Runs `step` over a session, again and again, until the step succeeds or fails for good, or
  // `until` has passed. `make`: create a missing table.
  template <class T, class Step>
  Result<T> run(Deadline until, bool make, const Step& step) {
    return with_value<T>(step, [&](const AnyStep& any) { return repeat(until, make, any); });
  }
  // Like run(), but over the caller's session. It retries only while that session is still usable.
  template <class T, class Step>
  Result<T> run_on(SqlSession& s, Deadline until, bool make, const Step& step) {
    return with_value<T>(step, [&](const AnyStep& any) { return repeat_on(s, until, make, any); });
  }
  // Runs `step`. If its table is missing, nothing has been stored yet, so the result is T{}.
  template <class T, class Step>
  Result<T> run_if_there(const Step& step) {
    return run<T>(usual_deadline(), false, [&](SqlSession& s) -> Result<T> {
      auto done = step(s);
      if (!done && s.remedy() == Remedy::create) return T{};
      return done;
    });
  }
  // Checks whether the server is fit for locks of a recipe. An Error: the server is unreachable.
  virtual Result<std::vector<Finding>> examine(const Traits&) = 0;

 protected:
  static constexpr std::size_t most_idle = 4;
  using AnyStep = std::function<Result<void>(SqlSession&)>;

  // Opens a session of the server whose turn it is. `share`: how much time this server gets; null:
  // it was reached before, and there is no other server.
  virtual Result<std::unique_ptr<SqlSession>> open(const Duration* share) = 0;
  // Checks that a new session is with the right server.
  virtual Result<void> prepare_session(SqlSession&, bool any, Deadline until) = 0;
  // Returns whether a step that failed may be repeated. Waits a moment before it returns true.
  virtual bool may_repeat(SqlSession&, const Error&, Deadline until, unsigned failures) = 0;
  virtual Result<void> create(SqlSession&, Deadline until) = 0;
  virtual bool read_password_again() = 0;

  void next_server() noexcept { server_ = (server_ + 1) % servers_; }
  bool pause(Duration, Deadline until) const;  // false: it would last too long, or was interrupted
  // Returns the error for tables that could not be created.
  Error no_tables(const Error& why) const;

  const std::size_t servers_;
  const std::string_view schema_;
  std::vector<std::unique_ptr<SqlSession>> idle_;
  std::vector<const SqlSession*> out_;
  std::size_t server_ = 0;  // the number of the server that replied last
  bool ever_connected_ = false;
  std::uint64_t exchanges_ = 0;  // of sessions that are closed

 private:
  Result<void> repeat(Deadline until, bool make, const AnyStep&);
  Result<void> repeat_on(SqlSession&, Deadline until, bool make, const AnyStep&);
  Result<void> attempt(SqlSession&, Deadline until, bool make, const AnyStep&);

  // Returns the value of the last call of `step`.
  template <class T, class Step, class Loop>
  static Result<T> with_value(const Step& step, const Loop& loop) {
    std::optional<T> value;
    TRY_VOID(loop([&](SqlSession& s) -> Result<void> {
      auto done = step(s);
      if (!done) return fail(std::move(done.error()));
      value.emplace(std::move(*done));
      return {};
    }));
    return std::move(*value);
  }
};

// A SqlClient of one store: its options, and steps over its own kind of session.
template <class StoreOptions, class StoreSession>
class SqlClientOf : public SqlClient {
 public:
  using Connection = StoreSession;
  template <class T>
  using Step = std::function<Result<T>(Connection&)>;

  SqlClientOf(StoreOptions options, std::string_view schema)
      : SqlClient(options.servers.size(), schema), options_(std::move(options)) {}
  const StoreOptions& options() const noexcept override { return options_; }

  Result<std::unique_ptr<Connection>> connection(Deadline until, bool any = false) {
    return own(session(until, any));
  }
  Result<std::unique_ptr<Connection>> writer(Deadline until) {
    return own(writable_session(until));
  }
  template <class T>
  Result<T> run(Deadline until, bool make, const Step<T>& step) {
    return SqlClient::run<T>(until, make, over<T>(step));
  }
  template <class T>
  Result<T> run_on(Connection& c, Deadline until, bool make, const Step<T>& step) {
    return SqlClient::run_on<T>(c, until, make, over<T>(step));
  }
  template <class T>
  Result<T> run_if_there(const Step<T>& step) {
    return SqlClient::run_if_there<T>(over<T>(step));
  }

 protected:
  bool read_password_again() override { return options_.read_password_again(); }

  StoreOptions options_;

 private:
  template <class T>
  static auto over(const Step<T>& step) {
    return [&step](SqlSession& s) { return step(static_cast<Connection&>(s)); };
  }
  static Result<std::unique_ptr<Connection>> own(Result<std::unique_ptr<SqlSession>> s) {
    if (!s) return fail(std::move(s.error()));
    return std::unique_ptr<Connection>{static_cast<Connection*>(s->release())};
  }
};

}  // namespace dlock
