// SPDX-License-Identifier: Apache-2.0
// The recipes sequential, curator and kazoo. Each key has a directory, and each contender has an
// ephemeral sequential node in it. The contender with the lowest number holds the lock, and each
// other contender watches one node before its own. The recipes differ in the names of nodes
// (queue.hpp). Only sequential has shared mode, permits and --once-per.
#pragma once
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/records.hpp"
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

class QueueBackend final : public SessionBackend {
 public:
  QueueBackend(const Traits& traits, Options options, Dialect dialect)
      : SessionBackend(traits, std::move(options)), dialect_(dialect) {}

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<std::vector<std::string>> names() override;
  Result<void> erase(const Key&) override;
  Result<RunStarts> starts(const Key&) override;
  Result<UpdateResult> note_start(const Lease&, const RunStartUpdate&) override;
  Result<std::optional<KeyView>> inspect_name(const std::string& name) override;

  Dialect dialect() const noexcept { return dialect_; }
  // Returns the data of a new directory: the full key, if the name in the store is shortened.
  std::string directory_data(const Key&) const;
  Error foreign(const Key&, std::string_view node) const;
  Error too_new(const std::string& node, unsigned layout) const;
  Result<bool> find_node(Session&, QueueNode&, Deadline until) override;

 protected:
  std::vector<Op> release_ops(const std::string& node, std::optional<unsigned> slot) const override;
  Result<std::vector<Contender>> holders(const Key&) override;
  bool is_of(const Contender&, const Owner&) const override;
  Result<std::optional<KeyView>> view_of(const std::string& path, const std::string& key) override;

 private:
  struct Queue {  // a queue as it is now
    bool exists = false;
    std::string key;  // the full key, if the directory's name is shortened
    Directory directory;
    std::vector<Contender> contenders;  // in order
  };
  Result<Queue> read(Session&, const std::string& path);
  // The note of --once-per, read from an up-to-date server. `version` is the version of the note's
  // node; nullopt: the node does not exist.
  struct Note {
    std::optional<RunStart> start;
    std::optional<std::int32_t> version;
  };
  Result<Note> read_note(Session&, const std::string& path, Deadline until);
  Result<std::int64_t> leader_time(Session&, const std::string& path, Deadline until);
  // Returns the node of the grant; nullopt: the grant is not in force.
  Result<std::optional<std::string>> granted_node(Session&, const Lease&, Deadline until);
  Result<void> walk(Session&, const std::string& path, std::string_view stem,
                    std::vector<std::string>& paths);

  Dialect dialect_;
};

}  // namespace dlock::zookeeper
