// SPDX-License-Identifier: Apache-2.0
// Recipe flock: flock(2) on a file that other programs lock as well, above all flock(1).
#pragma once
#include <map>
#include <memory>
#include "file/flock/flock_file.hpp"
#include "file/flock/flock_record.hpp"
#include "store/factory.hpp"

namespace dlock::file {

class FlockBackend final : public Backend {
 public:
  // `where`: the directory of the files. Its inner directory has the records.
  FlockBackend(Directory where, std::string prefix, const Traits& traits, const Settings& settings)
      : where_(std::move(where)),
        prefix_(std::move(prefix)),
        traits_(traits),
        settings_(settings) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return "file:" + where_.path(); }
  Counters counters() const noexcept override { return counters_; }

  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override;

 private:
  friend class FlockWaiter;

  struct HeldFile {
    FlockFile file;  // has the lock and the mark
    FlockRecord::Entry entry;
  };

  Result<std::string> name_of(const Key&) const;  // Errc::usage: a file cannot have this name
  FlockRecord& record(const std::string& name);
  HeldFile* held(const Key&, const Owner&);
  Result<std::optional<LockState::Holder>> in_force(const Key&, const GrantId&);

  const Directory where_;
  const std::string prefix_;
  const Traits& traits_;
  const Settings settings_;
  Counters counters_;
  std::map<std::string, std::unique_ptr<FlockRecord>> records_;  // by the file's name
  std::map<std::pair<std::string, Owner>, HeldFile> held_;
};

}  // namespace dlock::file
