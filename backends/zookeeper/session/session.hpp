// SPDX-License-Identifier: Apache-2.0
// One session with an ensemble, on the library's single-threaded interface. It uses only the
// caller's thread. Nothing happens unless the caller waits here, and every wait has an end. So a
// session that is not renewed ends, as a lease does, and a connection can be left without ending
// its session.
//
// Requests are sent at once, and replies come in the same order. A Call may be dropped before its
// reply. Callbacks only store what arrived.
#pragma once
#include <cstdint>
#include <map>
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
  // czxid: the transaction that created the node. owner: the session with which the node ends; 0:
  // none.
  std::int64_t czxid = 0, owner = 0;
  std::int32_t version = 0;   // the version of its data
  std::int64_t mtime = 0;     // when its data were written, by the leader's clock, ms since 1970
  std::int32_t cversion = 0;  // the version of its children
  FencingToken token() const noexcept { return static_cast<FencingToken>(czxid); }
};

struct Reply {
  int rc = 0;                      // the result code of the library: ZOK, ZNONODE...
  std::string text;                // the path that was created, or the node's data
  std::vector<std::string> names;  // children
  NodeStat stat;
  Deadline sent{};  // when the request was sent, or a little earlier
};
// Returns whether the outcome is unknown: there was no reply, or the connection broke.
bool unknown(int rc) noexcept;
// Returns the error for a reply that is neither ZOK nor expected.
Error server_error(const Options&, std::string_view operation, int rc);

struct Op {
  enum class Kind { check, create, set, remove } kind;
  std::string path;
  std::string data{};
  int version = -1;  // of check, set and remove; -1: any version
  int flags = 0;     // of create
};

using WatchId = std::uint64_t;  // unique in this process; 0: no watch

// A session timeout is requested in whole milliseconds.
inline Duration whole_ms(Duration d) { return std::chrono::ceil<std::chrono::milliseconds>(d); }

class Session {
 public:
  // Sends nothing yet. `timeout`: the timeout to request, which includes `lock_delay`. How long
  // dlock waits for a silent server depends on `timeout` without `lock_delay`.
  Session(const Options&, Duration timeout, const std::optional<Ticket>& = std::nullopt,
          Duration lock_delay = {});
  // After keep(true), drops the connection and lets the session live on. Otherwise closes the
  // session, if there is a connection.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void keep(bool on) noexcept { keep_ = on; }
  void log_in();  // logs in with the credential of the options, if any; earlier logins stay valid

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
  // Returns whether servers have ended each connection instead of replying, for longer than the
  // timeout. Such servers do not serve now, or their store is empty or older than what we have
  // seen. (If the store is empty, they would turn this Session away for ever, but not a new Session
  // with the ticket of this Session.)
  bool turned_away() const;
  // Returns the number of the connection, unique in this process. What was read over an earlier
  // connection may be stale.
  std::uint64_t connection() const noexcept { return connection_; }
  const Proof& proof() const noexcept { return proof_; }
  int alarm_fd();  // readable when the server has sent data
  // Estimates the leader's clock in microseconds since 1970, from the reply to the last write. The
  // estimate is too low by the transit time of that reply. Sends no request. nullopt: there was no
  // write in the last minute.
  std::optional<std::int64_t> leader_time() const;

  // Waits until the session is connected, as far as this can be seen without a request. If it must
  // connect, it first looks up the servers' names again. Errc::unavailable: the session was not
  // connected by `until`, so nothing was sent, or the wait was interrupted. Errc::denied: the login
  // was refused. An expired session is no error: check state().
  Result<void> connect(Deadline until, int interrupt_fd = -1);

  // Waits until an event has arrived and was handled, `until` has passed, or interrupt_fd is
  // readable. Without a connection it returns `event` at once.
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
  void fire(WatchId);  // does the same as the event of the watch
  void forget(WatchId id) { watches_.erase(id); }

  std::uint64_t requests = 0;

 private:
  struct Callbacks;
  friend struct Callbacks;
  // Sets the addresses for the next connection. The first call creates the handle.
  Result<void> set_servers(const std::string&);
  // Like listen(), but begins a connection if there is none. Returns `event` when a connection
  // ends.
  Wake pump(Deadline until, int interrupt_fd);
  template <class Request>
  Call send(bool write, Request);
  bool left() const;  // the library has no connection, and does not connect
  // Returns how long the server may be silent in this attempt to connect. After a silent server the
  // time is shorter, so that a frozen server does not keep dlock from the servers that have just
  // elected a leader.
  Duration patience() const;
  void note_descriptor(int fd, Deadline began);
  void note_fault(std::string_view);  // why the attempt to connect failed; empty: unknown
  void on_state(int state);
  void watch_socket();

  const Options& options_;
  Duration requested_, patience_;
  unsigned silences_ = 0;  // how many servers in a row were silent since the last connection
  const Ticket resumed_;   // the session to resume; id 0: create a new session
  Proof proof_;
  bool keep_ = false;
  _zhandle* handle_ = nullptr;  // null: no address is known yet
  std::string servers_;         // the addresses that the library has
  std::string fault_;           // why the last attempt failed, if that is known
  int fd_ = -1;                 // the socket of the library
  Deadline attempt_at_{};       // when the attempt to connect began
  // When a server turned us away for the first time since the last connection.
  Deadline turned_away_at_ = no_deadline;
  std::uint64_t connection_ = 0, news_ = 0;  // news_: how many events there have been
  std::int64_t written_ = 0;                 // NodeStat::mtime of the last write
  Deadline written_at_{};                    // when the reply to that write came
  std::map<WatchId, bool> watches_;
  Fd alarm_;
  Fd turn_;  // our turn: only one process at a time may be connected to a resumed session
};

}  // namespace dlock::zookeeper
