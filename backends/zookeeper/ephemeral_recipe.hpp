// SPDX-License-Identifier: Apache-2.0
// The recipe ephemeral: one ephemeral node is the lock. Who finds it there watches it, and all try again when it goes.
#pragma once
#include <optional>
#include <string>
#include "zookeeper/session_waiter.hpp"

namespace dlock::zookeeper {

class EphemeralBackend final : public Base {
 public:
  using Base::Base;
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  using Base::check;
  Result<Validity> check(const Key&, const Owner&) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<KeyView>> list() override;
  static HolderView seen(const Reply&);

 protected:
  Result<bool> find_node(Session&, Place&, Deadline until) override;
  std::vector<Op> release_ops(const Place& p) const override { return {{Op::Kind::remove, p.node}}; }
  bool names_recur() const override { return true; }
  Result<std::vector<Held>> holders(const Key&) override;

 private:
  std::optional<KeyView> view_of(const Reply&, std::string key) const;
};

// Interleaving: a create got no answer. The next poll finds the node in the way, of our own session and with our record: it is the lost grant,
// and counts from a renewal then.
class EphemeralWaiter final : public SessionWaiter {
 public:
  EphemeralWaiter(EphemeralBackend& backend, Request request, std::string path)
      : SessionWaiter(backend, std::move(request)), backend_(backend), path_(std::move(path)) {}

 private:
  Step turn(Deadline end) override;
  Step look(Session&, Place&, Deadline end);

  EphemeralBackend& backend_;
  const std::string path_;
  Session* watch_session_ = nullptr;
  std::uint64_t connection_ = 0;
  std::optional<HolderView> holder_;
};

}  // namespace dlock::zookeeper
