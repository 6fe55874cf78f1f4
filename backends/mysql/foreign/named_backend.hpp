// SPDX-License-Identifier: Apache-2.0
// Recipes that share locks with other programs, in a database of MySQL's family.
#pragma once
#include <optional>
#include <string>
#include "mysql/client/client.hpp"
#include "sql/sql_record_backend.hpp"

namespace dlock::mysql {

// Returns a statement that reads the engine of a table, and whether the engine has transactions
// ("YES" or "NO"). Only an engine with transactions locks rows.
std::string engine_of(const std::string& table);

struct LockRow : LockRecord {
  std::uint64_t conn = 0;  // the session of the newest grant
};

class NamedBackend : public SqlRecordBackend<Client> {
 public:
  NamedBackend(const Traits& traits, Options options, std::string_view schema, std::string table)
      : SqlRecordBackend(traits, std::move(options), schema), table_(std::move(table)) {}

  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<void> erase(const Key&) override;
  // Returns the rows of a key: its record first, then the rows of other programs.
  virtual std::vector<Rows> rows() const { return {{table_, "name"}}; }

 protected:
  // Refuses requests that none of these recipes supports.
  Result<void> check_request(const Request&) const;
  std::string name_of(const Key& key) const { return client_.options().prefix + key.text(); }

  // Return SQL conditions on the record `r` of `name`. in_force(): the record is in force. held():
  // the lock is held, by dlock or by another program.
  virtual std::string in_force(const std::string& name) const = 0;
  virtual std::string held(const std::string& name) const = 0;
  // Finds out what the SQL conditions cannot express, over a session that has no locks.
  virtual Result<void> probe(Connection&, const std::string&, LockRow&, Deadline) { return {}; }

  // On Galera each node has its own clock, so the locks of others count as held for `skew_` longer.
  void use_clock_of(const Connection& c) noexcept {
    skew_ = c.facts().galera ? client_.options().clock_skew.count() : 0;
  }
  using SqlRecordBackend::read_record;
  Result<LockRow> read_record(Connection&, const std::string& name, Deadline until);
  Result<LockRecord> read_record(Connection&, const Key&, Deadline until) final;
  // Ends the lock that was read, whoever has it. False: it had ended before.
  virtual Result<bool> force_over(Connection&, const std::string& name, const LockRow&,
                                  Deadline until) = 0;

  static std::string identity_of(const Request&);  // returns the text for column `who`
  // Writes the current holder to the record and returns its token. `from`: an SQL FROM clause that
  // selects a row only if the lock is still held and the server is writable (@writes). If it
  // selects none, nothing is written, and the result is nullopt. If `again` is true, an owner that
  // the record already names keeps its token.
  Result<std::optional<FencingToken>> write_record(Connection&, const std::string& name,
                                                   const Request&, const std::string& from,
                                                   const std::string& conn, Deadline until,
                                                   bool again = true);

  const std::string table_;  // the table of the records
  Micros skew_ = 0;          // how much longer the locks of others count, on the last server used
};

}  // namespace dlock::mysql
