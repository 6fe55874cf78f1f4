// SPDX-License-Identifier: Apache-2.0
// Shared by the recipes that exclude with other programs: the lock under the name that those use,
// and dlock's own record beside it, a row with the holder and the newest token. The record decides
// nothing but the token; the lock is elsewhere.
#pragma once
#include <optional>
#include <string>
#include "core/backend.hpp"
#include "mysql/client/client.hpp"

namespace dlock::mysql {

// A statement: the engine of a table, and whether it has transactions and so locks rows ("YES",
// "NO").
std::string engine_of(const std::string& table);

struct LockRow {
  bool exists = false;
  FencingToken fence = 0;
  std::string owner;  // hex; empty: released
  std::uint64_t conn = 0;
  Micros granted = 0, until = 0, now = 0;
  Identity who;
  bool ours = false;    // and it is in force: by some dlock
  bool held = false;    // by dlock or another program
  bool ending = false;  // ours and expired, but not yet on every node's clock
};

class NamedBackend : public Backend {
 public:
  NamedBackend(const Traits& traits, Options options, std::string_view schema, std::string table)
      : client_(std::move(options)), traits_(traits), schema_(schema), table_(std::move(table)) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return client_.options().where; }
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<void> erase(const Key&) override;
  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override { return {client_.statements(), wakeups_}; }
  Client& client() noexcept { return client_; }
  virtual std::vector<Rows> rows() const { return {{table_, "name"}}; }  // its own record first

 protected:
  // Refuses requests that none of these recipes supports. `longest`: bytes of prefix and key.
  Result<void> accept(const Request&, std::size_t longest) const;
  Error refuse(std::string_view what) const;
  std::string name_of(const Key& key) const { return client_.options().prefix + key.text(); }

  // SQL conditions on the record `r` of `name`: it is in force; the lock is held.
  virtual std::string in_force(const std::string& name) const = 0;
  virtual std::string held(const std::string& name) const = 0;
  // Checks what cannot be expressed in SQL. `c` is a session without locks.
  virtual Result<void> look_closer(Connection&, const std::string&, LockRow&, Deadline) {
    return {};
  }

  // On Galera each node judges by its own clock: foreign locks end `skew_` later.
  void judge_by(const Connection& c) noexcept {
    skew_ = c.facts().galera ? client_.options().clock_skew.count() : 0;
  }
  Result<LockRow> look(Connection&, const std::string& name, Deadline until);
  Result<LockRow> look(const std::string& name);
  static HolderView view(const LockRow&);
  std::vector<std::string> notes(const LockRow&) const;

  static std::string who(const Request&);  // in the form of the record
  // Writes the current holder and returns its token. `from`: the FROM clause in SQL, where a row
  // proves that the lock is still held, and @writes that the server is writable; none: no token.
  // `again`: the same owner keeps its token.
  Result<std::optional<FencingToken>> record(Connection&, const std::string& name, const Request&,
                                             const std::string& from, const std::string& conn,
                                             Deadline until, bool again = true);

  template <class T>
  Result<T> run(const std::function<Result<T>(Connection&)>& step) {
    return client_.run<T>(client_.usual_deadline(), schema_, step);
  }

  Client client_;
  const Traits& traits_;
  const std::string_view schema_;
  const std::string table_;  // of the records
  std::uint64_t wakeups_ = 0;
  Micros skew_ = 0;  // of the last server used
};

}  // namespace dlock::mysql
