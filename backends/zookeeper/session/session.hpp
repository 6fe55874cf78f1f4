// SPDX-License-Identifier: Apache-2.0
// One session with an ensemble, on the library's single-threaded interface. It uses only the
// caller's thread. Nothing happens unless the caller waits here, and every wait has an end. So a
// session that is not renewed ends, as a lease does, and a connection can be left without ending
// its session.
//
// Requests are sent at once, and replies come in their order. A Call may be dropped before its
// reply. Callbacks only store what arrived.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "util/fd.hpp"
#include "zookeeper/options.hpp"
#include "zookeeper/records.hpp"
#include "zookeeper/session/proof.hpp"

struct _zhandle;

namespace dlock::zookeeper {

struct NodeStat {
  // czxid: the transaction that created the node. owner: the session with which it ends; 0: none.
  std::int64_t czxid = 0, owner = 0;
  std::int32_t version = 0;   // the version of its data
  std::int64_t mtime = 0;     // when these were written, by the leader's clock, in ms since 1970
  std::int32_t cversion = 0;  // the version of its children
  FencingToken token() const noexcept { return static_cast<FencingToken>(czxid); }
};

struct Reply {
  int rc = 0;                      // of the library: ZOK, ZNONODE...
  std::string text;                // the path that was created, or the node's data
  std::vector<std::string> names;  // children
  NodeStat stat;
  Deadline sent{};  // when the request was sent, or a little earlier
};
// Returns whether the outcome is unknown: there was no reply, or the connection broke.
bool unknown(int rc) noexcept;
// The error for a reply that is neither ZOK nor expected.
Error server_error(const Options&, std::string_view operation, int rc);

struct Op {
  enum class Kind { check, create, set, remove } kind;
  std::string path;
  std::string data{};
  int version = -1;  // of check, set and remove; -1: any version
  int flags = 0;     // create
};

using WatchId = std::uint64_t;  // unique in this process; 0: no watch

// A session timeout is requested in whole milliseconds.
inline Duration whole_ms(Duration d) { return std::chrono::ceil<std::chrono::milliseconds>(d); }

class Session {
 public:
  // Sends nothing yet. `timeout`: the timeout to request. It includes a lock-delay, which is no
  // reason to be more patient with a silent server.
  Session(const Options&, Duration timeout, const std::optional<Ticket>& = std::nullopt,
          Duration lock_delay = {});
  // After keep() it leaves the connection and lets the session live on. Otherwise it closes the
  // session, if there is a connection.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void keep(bool on) noexcept { keep_ = on; }
  void log_in();  // adds the credential of the options, if there is one, to earlier credentials

  enum class State { connecting, connected, expired, denied };
  State state() const;
  // Returns whether the session is useless from now on.
  bool over() const { return state() == State::expired || state() == State::denied; }
  bool connected() const { return state() == State::connected; }
  std::int64_t id() const;
  Ticket ticket() const;
  Duration requested() const noexcept { return requested_; }
  // the negotiated timeout; valid once connected
  Duration timeout() const;
  // For longer than `timeout`, servers have ended each connection instead of replying. They do not
  // serve now, or have seen less than we have: their store is older, or empty. (An empty store
  // would turn this Session away for ever, but not a new Session with this one's ticket.)
  bool turned_away() const;
  // Numbers connections in this process. Facts from an earlier connection may be old.
  std::uint64_t connection() const noexcept { return connection_; }
  const Proof& proof() const noexcept { return proof_; }
  int alarm_fd();  // readable when the server has sent data
  // Returns the leader's clock in microseconds since 1970, as a write of the last minute reported
  // it. It is too low by the transit time of that reply. It sends no request.
  std::optional<std::int64_t> leader_time() const;

  // Returns when it is connected, as far as this shows without a request. It looks the servers'
  // names up again each time. Errc::unavailable: it was not connected at `until`, so nothing was
  // sent, or it was interrupted. Errc::denied. An expired session is no error: check state().
  Result<void> connect(Deadline until, int interrupt_fd = -1);

  // Handles events until one has arrived, `until` is over, or interrupt_fd is readable. Without a
  // connection it returns `event` at once.
  enum class Wake { event, nothing, interrupted };
  Wake listen(Deadline until, int interrupt_fd = -1);

  // Drops the connection, but not the session; connect() then tries another server. The outcome of
  // unanswered requests is unknown.
  void drop();

  // A request in flight.
  class Call {
   public:
    Call() = default;
    Call(Call&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Call& operator=(Call&& other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~Call();
    bool done() const noexcept;  // also true if there is no request
    explicit operator bool() const noexcept { return state_ != nullptr; }
    const Reply& reply() const noexcept;

   private:
    friend class Session;
    struct State;
    explicit Call(State* s) : state_(s) {}
    State* state_ = nullptr;
  };

  Call create(const std::string& path, const std::string& data, int flags);
  Call children(const std::string& path, WatchId = 0);
  Call get(const std::string& path, WatchId = 0);
  Call exists(const std::string& path);
  Call remove(const std::string& path);
  Call set(const std::string& path, const std::string& data);
  Call sync(const std::string& path);
  Call acl(const std::string& path);
  Call multi(const std::vector<Op>&);

  // Waits for these calls. False: no reply came by `until`. Then the connection has been dropped,
  // so none of the requests can be carried out later unnoticed.
  bool finish(std::initializer_list<const Call*>, Deadline until);

  WatchId new_watch();
  bool fired(WatchId id) const;
  void fire(WatchId);  // as its event does
  void forget(WatchId id) { watches_.erase(id); }

  std::uint64_t requests = 0;

 private:
  struct Callbacks;
  friend struct Callbacks;
  // Sets the addresses for the next connection. The first addresses create the handle.
  Result<void> set_servers(const std::string&);
  // Begins a connection if there is none, and returns at its end.
  Wake pump(Deadline until, int interrupt_fd);
  template <class Request>
  Call send(bool write, Request);
  bool left() const;  // the library neither has a connection nor begins one
  // How long the server of this attempt to connect may be silent. Once a server was silent, less: a
  // frozen one does not keep dlock from those that have just elected a leader.
  Duration patience() const;
  void note_descriptor(int fd, Deadline began);
  void note_fault(std::string_view);  // of the attempt to connect; empty: unknown
  void on_state(int state);
  void watch_socket();

  const Options& options_;
  Duration requested_, patience_;
  unsigned silences_ = 0;  // of servers in a row, since the last connection was made
  const Ticket resumed_;   // id 0: create a session
  Proof proof_;
  bool keep_ = false;
  _zhandle* handle_ = nullptr;             // null: no address is known yet
  std::string servers_;                    // the addresses that the library has
  std::string fault_;                      // why the last attempt failed, if that is known
  int fd_ = -1;                            // the library's
  Deadline attempt_at_{};                  // when it began to connect
  Deadline turned_away_at_ = no_deadline;  // the first such time since the last connection
  std::uint64_t connection_ = 0, news_ = 0;
  std::int64_t written_ = 0;  // NodeStat::mtime of the last write
  Deadline written_at_{};     // when its answer came
  std::map<WatchId, bool> watches_;
  Fd alarm_;
  Fd turn_;  // locked, because only one process at a time may be connected to a resumed session
};

}  // namespace dlock::zookeeper
