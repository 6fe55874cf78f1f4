// SPDX-License-Identifier: Apache-2.0
// The recipe ephemeral: one ephemeral node is the lock. Contenders that find the node watch it, and
// all of them try again when it is deleted.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "zookeeper/session/session_backend.hpp"
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

class EphemeralBackend final : public SessionBackend {
 public:
  using SessionBackend::SessionBackend;
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  Result<bool> find_node(Session&, QueueNode&, Deadline until) override;

 protected:
  bool names_recur() const override { return true; }
  Result<std::vector<Contender>> holders(const Key&) override;
  bool is_of(const Contender&, const Owner&) const override;
  Result<std::optional<KeyView>> view_of(const std::string& path, const std::string& key) override;

 private:
  Result<std::vector<Contender>> read(const std::string& path);  // at most one contender
};

// Interleaving: a create got no reply. The next poll finds a node that belongs to our own session
// and has our record. So the create succeeded, and the lease counts from the next renewal.
class EphemeralWaiter final : public SessionWaiter {
 public:
  EphemeralWaiter(EphemeralBackend& backend, Request request, std::string path)
      : SessionWaiter(backend, std::move(request)), backend_(backend), path_(std::move(path)) {}

 private:
  Step turn(Session&, QueueNode&, Deadline end) override;
  // Reads the node that blocks us, and watches it from then on. go_on: the node is gone, or ours.
  Step set_watch(Session&, QueueNode&);
  Step wait(Session&, Deadline end);

  EphemeralBackend& backend_;
  const std::string path_;
  std::uint64_t connection_ = 0;  // the connection on which the watch was set
  std::optional<HolderView> holder_;
};

}  // namespace dlock::zookeeper
