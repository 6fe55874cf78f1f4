// SPDX-License-Identifier: Apache-2.0
// Recipe flock: flock(2) on a file that other programs lock as well, above all flock(1).
#pragma once
#include <map>
#include <memory>
#include "file/doctor.hpp"
#include "file/flock/flock_file.hpp"
#include "file/flock/flock_record.hpp"
#include "store/factory.hpp"

namespace dlock::file {

class FlockBackend final : public Backend {
 public:
  // `where`: the directory of the files. Its inner directory (directory.hpp) has the records.
  // `of_all_users`: all users may write to the directory, so this user has records of its own. If a
  // stranger has put something in the place of these records, a lock is granted without a record.
  FlockBackend(Directory where, std::string prefix, bool of_all_users, const Traits& traits,
               const Settings& settings)
      : where_(std::move(where)),
        prefix_(std::move(prefix)),
        of_all_users_(of_all_users),
        traits_(traits),
        settings_(settings) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return "file:" + where_.path(); }
  Counters counters() const noexcept override { return counters_; }
  Health health() override { return {.warnings = warnings_}; }
  Result<std::vector<Finding>> doctor() override { return examine(where_, true, of_all_users_); }

  // The Waiter must not outlive this Backend.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<Validity> check_outer(const Lease& outer, pid_t dlock) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override;

 private:
  friend class FlockWaiter;

  struct HeldFile {
    FlockFile file;            // has the flock, and the mark of the grant (set_mark())
    FlockRecord::Entry entry;  // its mailbox is empty if the lock has no record
  };

  Result<std::string> name_of(const Key&) const;  // Errc::usage: a file cannot have this name
  FlockRecord& record(const std::string& name);
  Result<FlockRecord::Entry> enter(const std::string& name, const Request&, int locked);
  HeldFile* held(const Key&, const Owner&);
  Result<std::optional<LockState::Holder>> in_force(const Key&, const GrantId&);

  const Directory where_;
  const std::string prefix_;
  const bool of_all_users_;
  const Traits& traits_;
  const Settings settings_;
  Counters counters_;
  std::vector<std::string> warnings_;
  std::map<std::string, std::unique_ptr<FlockRecord>> records_;  // by the file's name
  std::map<std::pair<std::string, Owner>, HeldFile> held_;
};

}  // namespace dlock::file
