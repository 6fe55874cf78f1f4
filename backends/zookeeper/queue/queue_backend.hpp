// SPDX-License-Identifier: Apache-2.0
// The recipes sequential, curator and kazoo: a directory per key, in it an ephemeral sequential
// node per contender. The lowest number holds; every other watches one node before it. Only the
// names differ (queue.hpp); shared mode, permits and lock-delay are sequential's.
#pragma once
#include "zookeeper/node_record.hpp"
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

class QueueBackend final : public SessionBackend {
 public:
  QueueBackend(const Traits& traits, Options options, Dialect dialect)
      : SessionBackend(traits, std::move(options)), dialect_(dialect) {}

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<std::optional<KeyView>> inspect(const Key&) override;
  Result<std::vector<std::string>> names() override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;

  Dialect dialect() const noexcept { return dialect_; }
  // The data of a new directory: the key, if its name in the store is a shortened one.
  std::string directory_data(const Key&) const;
  Error foreign(const Key&, std::string_view node) const;
  Error too_new(const std::string& node, unsigned layout) const;
  static HolderView seen(const Reply&, Mode);

 protected:
  Result<bool> find_node(Session&, Place&, Deadline until) override;
  std::vector<Op> release_ops(const Place&) const override;
  Result<std::vector<HolderNode>> holders(const Key&) override;
  bool is_of(const HolderNode&, const Owner&) const override;

 private:
  struct Seen {  // a member of a queue as it is now
    Member member;
    NodeStat stat;
    std::string data;
    bool holds = false;
  };
  struct Look {
    bool exists = false;
    std::string key;  // in full, if the directory's name is a shortened one
    Directory directory;
    std::vector<Seen> members;
  };
  Result<Look> look(Session&, const std::string& path, bool caught_up);
  Result<std::optional<KeyView>> view_of(Session&, const std::string& path, const std::string& key);
  Result<void> walk(Session&, const std::string& path, std::string_view stem,
                    std::vector<std::string>& paths);

  Dialect dialect_;
};

}  // namespace dlock::zookeeper
