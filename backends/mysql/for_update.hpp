// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mysql/held_backend.hpp"

namespace dlock::mysql {

// SELECT ... FOR UPDATE in a transaction that stays open: on a row of our own table, or of another program's (`?table=&key_column=&where.COLUMN=`).
// The token is committed beside it, because what the transaction itself writes is lost when it breaks, and the next holder would get the same one.
// The session has the named lock `dl:<owner>`, which tells others that it lives.
class ForUpdateBackend final : public HeldBackend {
 public:
  ForUpdateBackend(const Traits&, Options);
  std::vector<Rows> rows() const override { return {{table_, "name"}, locked_}; }

 protected:
  Result<void> fit(const Facts&) const override;
  Result<void> prepare(Connection&, const std::string&, Deadline) override;
  std::string in_force(const std::string&) const override;
  std::string held(const std::string&) const override { return "0"; }
  Result<void> look_closer(Connection&, const std::string&, Record&, Deadline) override;
  Result<std::optional<FencingToken>> try_now(Connection&, const std::string&, const Request&, Deadline) override;
  Result<void> before_wait(Connection&, const std::string&, Deadline) override;
  std::string wait(const std::string&, double seconds) const override;
  bool got(const Answer&) const override;
  Result<FencingToken> note(Connection&, const std::string&, const Request&, Deadline) override;
  Result<bool> beat(Connection&, const std::string&, const Owner&, Duration, Deadline) override;
  Result<bool> give_up(Connection&, const std::string&, const Owner&, Deadline) override;
  Result<void> undo(Connection&, const std::string&, Deadline) override;

 private:
  std::string row(const std::string& name) const;  // FROM ... WHERE ...
  Result<void> make_row(Connection&, const std::string& name, Deadline);
  const Rows locked_;
};

}  // namespace dlock::mysql
