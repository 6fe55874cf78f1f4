// SPDX-License-Identifier: Apache-2.0
// Recipe lease, for one machine: LockState in a file per key. Waiters sleep in the kernel, and
// lifelines (lifeline.hpp) prove that holders live.
#pragma once
#include <map>
#include <memory>
#include <utility>
#include "file/doctor.hpp"
#include "file/lease/key_store.hpp"
#include "store/factory.hpp"

namespace dlock::file {

class LeaseBackend final : public Backend {
 public:
  // `prefix` precedes the names of keys in the root. It is encoded so that a file name may begin
  // with it.
  LeaseBackend(Directory root, std::string prefix, const Traits& traits, const Settings& settings,
               const Tuning& tuning)
      : root_(std::move(root)),
        prefix_(std::move(prefix)),
        traits_(traits),
        settings_(settings),
        tuning_(tuning) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return "file:" + root_.path(); }
  Counters counters() const noexcept override { return counters_; }
  Health health() override { return {.in_grace_period = silent_}; }

  // The Waiter must not outlive this Backend. After the grant the Backend owns the lifeline, and
  // the Waiter may be destroyed.
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<Released> revoke(const Key&) override;
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;
  Result<void> erase(const Key& key) override {
    return root_.remove_key(prefix_ + store_name(key));
  }
  Result<std::vector<Finding>> doctor() override { return examine(root_, false, false); }

 private:
  friend class LeaseWaiter;

  // An attached holder of this process.
  struct AttachedHold {
    Lifeline life;
    LockState::Holder record;  // as it was granted; register_again() needs it if the state is lost
    bool revoked = false;      // a revocation was requested
  };
  using HoldKey = std::pair<std::string, Owner>;

  KeyStore& store(const Key&);
  AttachedHold* held(const Key&, const Owner&);
  Result<KeyStore::Begun> begin(KeyStore&, Make, int interrupt_fd = -1,
                                Duration patience = Duration::max());
  Result<Renewal> keep_attached(const Lease&, AttachedHold&);
  void note_end(const Lease&, AttachedHold&);
  Result<Renewal> keep_lease(const Lease&, Duration ttl);
  bool register_again(KeyStore&, AttachedHold&);
  static void note_run(KeyStore&, const LockState::Holder&, std::optional<RunEnd>);
  Result<bool> is_revoked(KeyStore&, FencingToken);

  const Directory root_;
  const std::string prefix_;
  const Traits& traits_;
  const Settings settings_;
  const Tuning tuning_;
  Counters counters_;
  bool silent_ = false;  // the last attempt to acquire was interrupted before it saw the state
  std::map<std::string, std::unique_ptr<KeyStore>> stores_;  // by key
  std::map<HoldKey, AttachedHold> held_;
};

}  // namespace dlock::file
