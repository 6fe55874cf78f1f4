// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mysql/foreign/held_backend.hpp"

namespace dlock::mysql {

// SELECT ... FOR UPDATE in a transaction that stays open, on a row of dlock's table or of another
// program's table (`?table=&key_column=&where.COLUMN=`). Another session commits the token, because
// a transaction that breaks loses its writes, and then the next holder would get the same token.
// record_grant() explains why a late write of a lost session never replaces the next holder's
// record. The session also has the named lock life_name(), which shows others that it is alive.
class ForUpdateBackend final : public HeldBackend {
 public:
  ForUpdateBackend(const Traits&, Options);
  std::vector<Rows> rows() const override { return {{table_, "name"}, locked_}; }

 protected:
  std::string_view locks() const override { return "row locks"; }
  std::string_view behind_proxy() const override {
    return "the owner of a transaction is unknown; connect to the server itself";
  }
  Result<void> set_up(Connection&, const std::string&, Deadline) override;
  std::string in_force(const std::string&) const override { return std::string{session_lives}; }
  std::string held(const std::string&) const override { return "0"; }
  Result<void> probe(Connection&, const std::string&, LockRow&, Deadline) override;
  Result<std::optional<FencingToken>> try_now(Connection&, const std::string&, const Request&,
                                              Deadline) override;
  Result<Duration> send_wait(Connection&, const Request&) override;
  bool was_granted(const SqlRows&) const override;
  Result<std::optional<FencingToken>> record_grant(Connection&, const std::string&, const Request&,
                                                   Deadline) override;
  Result<bool> heartbeat(Connection&, const Lease&, Duration, Deadline) override;
  Result<bool> release_over(Connection&, const Lease&, Deadline) override;
  Result<void> undo(Connection&, const std::string&, Deadline) override;

 private:
  std::string row(const std::string& name) const;  // FROM ... WHERE ...
  // Returns a statement that overwrites the record whose token is `newest`, or inserts a record if
  // `newest` is nullopt. The statement writes only while `session` is alive.
  std::string grant(const std::string& name, const Request&, std::optional<FencingToken> newest,
                    const std::string& session) const;
  Result<void> make_row(Connection&, const std::string& name, Deadline);
  const Rows locked_;
};

}  // namespace dlock::mysql
