// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "store/backend.hpp"
#include "support/fake_faults.hpp"
#include "support/fake_store.hpp"

namespace dlock::fake {

class FakeBackend final : public Backend {
 public:
  FakeBackend(std::string store, std::string prefix, const Traits& traits, Faults faults,
              int interrupt_fd)
      : store_(std::move(store)),
        prefix_(std::move(prefix)),
        traits_(traits),
        faults_(faults),
        interrupt_fd_(interrupt_fd) {}

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return "fake:" + store_; }
  Counters counters() const noexcept override { return counters_; }

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override { return {}; }  // gone with the process
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;

 private:
  friend class FakeWaiter;

  std::string name(const Key& key) const { return prefix_ + key.text(); }

  // Every call begins here: the drip, and the error of a store that cannot be opened.
  Result<void> begin() {
    sleep_for(faults_.drip);
    if (faults_.fail_open) return fail(*faults_.fail_open, "fake:" + store_ + ": cannot be opened");
    return {};
  }
  bool lose(RequestKind kind) {
    if (faults_.lose != kind) return false;
    faults_.lose = RequestKind::none;
    return true;
  }
  Entry& entry(Table& table, const Key& key) {
    ++counters_.requests;
    return table.at(store_, name(key));
  }
  // nullptr: unknown.
  Entry* known(Table& table, const Key& key) {
    return table.find(store_, name(key)) ? &entry(table, key) : nullptr;
  }
  Result<Renewal> extend(const Lease&, Duration ttl);

  const std::string store_, prefix_;
  const Traits& traits_;
  Faults faults_;
  const int interrupt_fd_;
  std::uint64_t renewals_ = 0;
  Counters counters_;
};

class FakeWaiter final : public Waiter {
 public:
  FakeWaiter(FakeBackend& backend, const Request& request) : backend_(backend), request_(request) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  struct Step {
    Progress progress = Waiting{};
    Deadline wake_at = no_deadline;
  };
  Step ask();
  Step held_back() const;
  void make_bell(Entry&, std::uint64_t ticket);
  bool sleep_until(Deadline);

  FakeBackend& backend_;
  const Request request_;
  std::optional<Deadline> closed_until_, unknown_since_;
  std::uint64_t ticket_ = 0;
  Fd bell_;
  std::uint64_t polls_ = 0;
};

Error lost_reply(const char* what);  // carried out, but the reply was lost

}  // namespace dlock::fake
