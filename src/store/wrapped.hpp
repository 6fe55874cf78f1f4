// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <utility>
#include "store/backend.hpp"

namespace dlock {

// A Backend in front of another Backend. It passes on every call that a subclass does not override.
class Wrapped : public Backend {
 public:
  explicit Wrapped(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const Traits& traits() const noexcept override { return inner_->traits(); }
  std::string where() const override { return inner_->where(); }
  Result<std::unique_ptr<Waiter>> enqueue(const Request& r) override { return inner_->enqueue(r); }
  Result<Renewal> renew(const Lease& l, Duration ttl) override { return inner_->renew(l, ttl); }
  Result<Renewal> detach(const Lease& l, Duration ttl, std::optional<RunEnd> end) override {
    return inner_->detach(l, ttl, end);
  }
  bool alarmed(const Lease& l) override { return inner_->alarmed(l); }
  Result<Released> release(const Lease& l, std::optional<RunEnd> end) override {
    return inner_->release(l, end);
  }
  Result<Released> force_release(const Key& k, std::optional<FencingToken> t) override {
    return inner_->force_release(k, t);
  }
  Result<Validity> check(const Key& k, const GrantId& id) override { return inner_->check(k, id); }
  Result<Validity> check_outer(const Lease& outer, pid_t dlock) override {
    return inner_->check_outer(outer, dlock);
  }
  Result<std::optional<KeyView>> inspect(const Key& k) override { return inner_->inspect(k); }
  Result<std::vector<std::string>> names() override { return inner_->names(); }
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override {
    return inner_->inspect_name(name);
  }
  Result<Released> revoke(const Key& k) override { return inner_->revoke(k); }
  Result<RunStarts> starts(const Key& k) override { return inner_->starts(k); }
  Result<UpdateResult> note_start(const Lease& l, const RunStartUpdate& change) override {
    return inner_->note_start(l, change);
  }
  Result<std::vector<Finding>> doctor() override { return inner_->doctor(); }
  Health health() override { return inner_->health(); }
  Result<std::string> after_restart(const Request& r) const override {
    return inner_->after_restart(r);
  }
  Counters counters() const noexcept override { return inner_->counters(); }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace dlock
