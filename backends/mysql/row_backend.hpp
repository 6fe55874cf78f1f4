// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock is a row with a time: insert and version. Nobody is told when it is released, so waiters ask again.
#pragma once
#include "mysql/named_backend.hpp"

namespace dlock::mysql {

class RowBackend : public NamedBackend {
 public:
  using NamedBackend::NamedBackend;
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease& lease, Duration ttl) override { return renew(lease, ttl); }
  Result<Released> release(const Lease&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;

  struct Try {
    std::optional<FencingToken> token;  // taken
    Deadline sent{};                    // before the request that took it
    Record seen;                        // not taken: by whom it is held
  };
  // Takes the lock if it is free. Repeating it is harmless.
  Result<Try> try_once(const Request&);

 protected:
  friend class RowWaiter;
  virtual Result<Try> try_over(Connection&, const std::string& name, const Request&, Deadline until) = 0;
  // The token of the lease that now ends at now + ttl; none: lost.
  virtual Result<std::optional<FencingToken>> renew_over(Connection&, const std::string&, const Owner&, Duration ttl,
                                                         Deadline) = 0;
  virtual Result<bool> release_over(Connection&, const std::string&, const Owner&, Deadline) = 0;
  virtual Result<bool> force_over(Connection&, const std::string&, const Record&, Deadline) = 0;

 private:
  std::optional<Owner> release_unanswered_;
};

// RECIPES: a row with a unique key, deleted to release. method_desc of a dlock's row is `dlock <owner> <end of the lease>`.
class InsertBackend final : public RowBackend {
 public:
  InsertBackend(const Traits&, Options);
  std::vector<Rows> rows() const override { return {{table_, "name"}, {rows_, "method_name", {}, true}}; }

 protected:
  std::string in_force(const std::string&) const override;
  std::string held(const std::string&) const override;
  Result<Try> try_over(Connection&, const std::string&, const Request&, Deadline) override;
  Result<std::optional<FencingToken>> renew_over(Connection&, const std::string&, const Owner&, Duration, Deadline) override;
  Result<bool> release_over(Connection&, const std::string&, const Owner&, Deadline) override;
  Result<bool> force_over(Connection&, const std::string&, const Record&, Deadline) override;

 private:
  std::string mark(const Owner& owner) const { return "dlock " + owner.hex() + " "; }
  const std::string rows_;
};

// A row with a version, read first and written only where the version is still the one that was read.
class VersionBackend final : public RowBackend {
 public:
  VersionBackend(const Traits&, Options);

 protected:
  std::string in_force(const std::string&) const override { return fmt_now("r.until>"); }
  std::string held(const std::string&) const override { return "0"; }
  Result<Try> try_over(Connection&, const std::string&, const Request&, Deadline) override;
  Result<std::optional<FencingToken>> renew_over(Connection&, const std::string&, const Owner&, Duration, Deadline) override;
  Result<bool> release_over(Connection&, const std::string&, const Owner&, Deadline) override;
  Result<bool> force_over(Connection&, const std::string&, const Record&, Deadline) override;

 private:
  struct Row {
    bool exists = false;
    std::uint64_t version = 0, fence = 0;
    std::string owner;
    Micros until = 0, now = 0;
  };
  static std::string fmt_now(std::string_view before) { return std::string{before} + std::string{server_clock}; }
  Result<Row> read(Connection&, const std::string& name, Deadline);
  Result<bool> write(Connection&, const std::string& name, std::uint64_t version, const std::string& set, Deadline);
};

}  // namespace dlock::mysql
