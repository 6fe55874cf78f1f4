// SPDX-License-Identifier: Apache-2.0
// The recipe ephemeral: one ephemeral node is the lock. Contenders that find it watch it, and all
// try again when it is deleted.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "zookeeper/node_record.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

class EphemeralBackend final : public SessionBackend {
 public:
  using SessionBackend::SessionBackend;
  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;
  static HolderView seen(const Reply&);
  static bool is_of(std::string_view data, const Owner&);  // of dlock's node

 protected:
  Result<bool> find_node(Session&, Place&, Deadline until) override;
  std::vector<Op> release_ops(const Place& p) const override {
    return {{Op::Kind::remove, p.node}};
  }
  bool names_recur() const override { return true; }
  Result<std::vector<HolderNode>> holders(const Key&) override;
  bool is_of(const HolderNode& h, const Owner& owner) const override {
    return is_of(h.data, owner);
  }

 private:
  Result<Reply> look(const std::string& path);  // ZOK or ZNONODE
  std::optional<KeyView> view_of(const Reply&, std::string key) const;
};

}  // namespace dlock::zookeeper
