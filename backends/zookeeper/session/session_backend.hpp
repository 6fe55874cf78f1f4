// SPDX-License-Identifier: Apache-2.0
// What the recipes share: sessions, the places of this Backend in queues, and everything about a
// held lock. The proof of a held lock is a write through the leader that changes nothing
// (`multi{check}`). A node's czxid and session distinguish it from a later node with the same name.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "store/backend.hpp"
#include "zookeeper/options.hpp"
#include "zookeeper/session/session.hpp"

namespace dlock::zookeeper {

// A session and its owner. Attached locks of a Backend share one session if they have the same ttl
// and the same lock-delay. A detached lease has its own session, which its handle names. The
// timeout of a session is the sum of the ttl and the lock-delay. dlock resumes the session with the
// same timeout, because a new leader tracks the session by its first timeout. Only --min-hold asks
// for a shorter timeout.
struct SessionSlot {
  std::optional<Owner> owner;  // set for a detached lease, which has this session to itself
  Duration ttl{}, lock_delay{};
  std::unique_ptr<Session> session;  // null: there is no session yet, or it is over
  // A handle resumed the session. The session may hold other keys, so it is never closed, and ends
  // by its timeout.
  bool resumed = false;

  Duration timeout() const { return ttl + lock_delay; }
};

// What is known about the node of a QueueNode.
enum class NodeState {
  none,
  unclear,    // a create got no reply: there may be a node
  waiting,    // the node is in its queue
  granted,    // the node holds the lock
  releasing,  // the node held the lock, and no reply has confirmed the release
};

// A place of this Backend in one queue: what we know about our node there.
struct QueueNode {
  Key key;
  Owner owner;
  Mode mode = Mode::exclusive;
  Duration ttl{};
  Duration lock_delay{};  // how much longer the session lasts than the lease
  Deadline until{};       // the deadline of the lease, as it was last returned
  Deadline granted_at{};  // when we got the lock; 0: another process got it
  bool attached = true;
  SessionSlot* line = nullptr;
  std::int64_t session = 0;
  NodeState node_state = NodeState::none;
  std::string node;                // the path; empty: there is no node, or this is unclear
  FencingToken token = 0;          // the czxid of the node
  std::int32_t version = 0;        // of the node's data
  std::optional<unsigned> slot{};  // the slot of our permit
  WatchId watch = 0;               // on the node itself, while it holds the lock
  Session::Call reading;           // the request that set the watch, perhaps without a reply yet
  // true: we have begun to release the lock or to leave the queue, perhaps without a reply. So the
  // owner must not be used again.
  bool given_up = false;

  bool granted() const { return node_state >= NodeState::granted; }
  // A restored server may know our session and use a czxid again, so compare the session, too.
  bool is(const NodeStat& stat) const { return stat.token() == token && stat.owner == session; }
  void set_node(std::string path, const NodeStat& stat) {
    node_state = NodeState::waiting;
    node = std::move(path);
    token = stat.token();
    version = stat.version;
  }
  void no_node(NodeState state) {  // `state`: none or unclear
    node_state = state;
    node.clear();
    slot.reset();
  }
};

class SessionBackend : public Backend {
 public:
  SessionBackend(const Traits& traits, Options options)
      : options_(std::move(options)), traits_(traits) {}
  ~SessionBackend() override;

  const Traits& traits() const noexcept override { return traits_; }
  std::string where() const override { return options_.where; }
  Result<Renewal> renew(const Lease&, Duration ttl) override;
  Result<Renewal> detach(const Lease&, Duration ttl, std::optional<RunEnd>) override;
  bool alarmed(const Lease&) override;
  Result<Released> release(const Lease&, std::optional<RunEnd>) override;
  Result<Validity> check(const Key&, const GrantId&) override;
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override;
  Result<Released> revoke(const Key&) override;
  Result<std::optional<KeyView>> inspect(const Key& key) override {
    TRY(path, path_of(options_, key));
    return view_of(path, key.text());
  }
  Result<std::vector<Finding>> doctor() override;
  Counters counters() const noexcept override;

  const Options& options() const noexcept { return options_; }
  Deadline op_deadline() const { return later(Clock::now(), options_.op_timeout); }

  // Returns the connected session for a request. Errc::usage: the ensemble does not allow a session
  // that lasts for its ttl and lock-delay.
  Result<SessionSlot*> line_for(const Request&, Deadline until, int interrupt_fd);
  // Returns a session for reading, with any timeout.
  Result<Session*> reader();
  // Returns the place of this owner, or a new place if it has none.
  QueueNode& place_for(const Request&);
  QueueNode* find_place(const Key&, const Owner&);
  bool lives(const QueueNode&) const;  // whether the session that created the node is alive
  void forget(QueueNode&);
  Lease lease_of(const QueueNode&, Deadline sent) const;
  static Ticket ticket_of(const QueueNode&);
  // Returns the lease of a grant once the lease is proven to last for proven_of() (proof.hpp): by
  // the write sent at `sent`, by more writes, or by resuming the session. Lost: the place is
  // removed.
  Result<Renewal> prove(QueueNode&, Deadline sent);
  // Reads a place's node, and watches it from then on. The caller need not wait for the reply:
  // alarmed() reads it.
  void watch(Session&, QueueNode&);

  // Creates the directory `path` and its parents.
  Result<void> make_directory(Session&, const std::string& path, const std::string& data,
                              Deadline until, bool container = true);

  // Call it before a node is created: it removes this Backend's abandoned nodes of the key. True:
  // there were some, and a session may be over by now. Error: it is unknown whether the abandoned
  // nodes are gone.
  Result<bool> settle(const Key&);
  // Forgets the place, and gives the request another owner. So requests under the old owner, with
  // or without a reply, do not affect the next place. A detached lease keeps its owner, because its
  // handle has one owner for all its keys.
  void renew_owner(Request&);

  // Deletes the node of a place that is not granted. If the create of the node got no reply, first
  // looks for the node. The place stays, without a node.
  Result<void> leave(QueueNode&);
  // Looks for a place's node in its session: another process may have created the node, or the
  // reply to our create may be lost. False: there is no such node.
  virtual Result<bool> find_node(Session&, QueueNode&, Deadline until) = 0;

  // Waits for the calls of an operation. Errc::timed_out: no reply came; or the server denied the
  // calls, but the credential's file has changed since, and the next try uses the new credential.
  Result<void> done(Session&, std::string_view what, std::initializer_list<const Session::Call*>,
                    Deadline until);
  // Returns the reply to a call, or an Error if the result is neither ZOK nor in `also`.
  Result<Reply> answer(Session&, std::string_view what, Session::Call, Deadline until,
                       std::initializer_list<int> also = {});
  static HolderView view(const NodeStat&, std::string_view data, Mode);

  std::uint64_t wakeups = 0;

 protected:
  virtual std::vector<Op> release_ops(const std::string& node, std::optional<unsigned>) const {
    return {{Op::Kind::remove, node}};
  }
  // Returns whether another client's node can have the name that our node had.
  virtual bool names_recur() const { return false; }
  // A contender's node, as it was read.
  struct Contender {
    std::string path;
    NodeStat stat;
    std::string data;
    Mode mode = Mode::exclusive;
    bool holds = true;
  };
  // Adds a holder. If its run has ended and --min-hold keeps the lock, adds the run, too.
  static void add_holder(KeyView&, const Contender&, HolderView);
  // Returns the current holders, as an up-to-date server sees them.
  virtual Result<std::vector<Contender>> holders(const Key&) = 0;
  virtual bool is_of(const Contender&, const Owner&) const = 0;
  // `key`: empty if only the store has the full key.
  virtual Result<std::optional<KeyView>> view_of(const std::string& path,
                                                 const std::string& key) = 0;

  Options options_;

 private:
  Result<QueueNode*> ours(const Lease&, Deadline until);
  // `ends_with_ttl`: not only the lease must end after `ttl`, but also the session. The RunEnd says
  // how the job ended.
  Result<Renewal> renew_in(const Lease&, Duration ttl, bool ends_with_ttl,
                           const std::optional<RunEnd>& = std::nullopt);
  Result<void> retime(SessionSlot&, Duration timeout);
  static Session::Call remove(Session&, const std::vector<Op>&);
  void record_timeout(Session&, QueueNode&, std::string_view data, Duration timeout,
                      const std::optional<RunEnd>&, Deadline until);
  SessionSlot& line(const std::optional<Owner>&, Duration ttl, Duration lock_delay);
  // Returns the connected session. If there is no session, or the old session is over, creates one.
  Result<Session*> connected(SessionSlot&, Deadline until, int interrupt_fd);
  void end_session(SessionSlot&);
  Result<int> try_a_lock(Session&);  // returns the result code of the client library
  void close(SessionSlot&);

  const Traits& traits_;  // a row of the recipe table, which lives for ever
  std::list<SessionSlot> lines_;
  std::list<QueueNode> places_;
  std::uint64_t closed_requests_ = 0;
};

}  // namespace dlock::zookeeper
