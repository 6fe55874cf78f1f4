// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "mysql/foreign/row_backend.hpp"

namespace dlock::mysql {

// The lock is a row with a version. dlock reads the row, and then writes it only if the version is
// still the same.
class VersionBackend final : public RowBackend {
 public:
  VersionBackend(const Traits&, Options);

 protected:
  std::string in_force(const std::string&) const override { return against_clock("r.until>"); }
  std::string held(const std::string&) const override {
    return "r.owner<>'' AND r.until+" + std::to_string(skew_) + against_clock(">");
  }
  Result<Try> try_over(Connection&, const std::string&, const Request&, Deadline) override;
  Result<std::optional<FencingToken>> renew_over(Connection&, const std::string&, const Owner&,
                                                 Duration, Deadline) override;
  Result<bool> release_over(Connection&, const std::string&, const Owner&, Deadline) override;
  Result<bool> force_over(Connection&, const std::string&, const LockRow&, Deadline) override;

 private:
  struct Row {
    bool exists = false, read_only = false;  // read_only: the server accepts no writes
    std::uint64_t version = 0, fence = 0;
    std::string owner;
    Micros until = 0, now = 0;
  };
  static std::string against_clock(std::string_view before) {
    return std::string{before} + std::string{server_clock};
  }
  Result<Row> read(Connection&, const std::string& name, Deadline);
  Result<bool> write(Connection&, const std::string& name, const Row& decided_on,
                     const std::string& set, Deadline);
};

}  // namespace dlock::mysql
