// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "mysql/foreign/row_backend.hpp"

namespace dlock::mysql {

// A row with a unique key is the lock, and a release deletes the row. In the rows that dlock
// writes, column method_desc is `dlock <owner> <end of the lease>`.
class InsertBackend final : public RowBackend {
 public:
  InsertBackend(const Traits&, Options);
  std::vector<Rows> rows() const override {
    return {{table_, "name"}, {rows_, "method_name", {}, true}};
  }

 protected:
  std::string in_force(const std::string&) const override;
  std::string held(const std::string&) const override;
  Result<Try> try_over(Connection&, const std::string&, const Request&, Deadline) override;
  Result<std::optional<FencingToken>> renew_over(Connection&, const std::string&, const Owner&,
                                                 Duration, Deadline) override;
  Result<bool> release_over(Connection&, const std::string&, const Owner&, Deadline) override;
  Result<bool> force_over(Connection&, const std::string&, const LockRow&, Deadline) override;

 private:
  std::string row_of(const std::string& name, const Owner&) const;
  std::string mark(const Owner& owner) const { return "dlock " + owner.hex() + " "; }
  const std::string rows_;
};

}  // namespace dlock::mysql
