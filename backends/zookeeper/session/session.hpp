// SPDX-License-Identifier: Apache-2.0
// One session with an ensemble, on the library's single-threaded interface: no thread but the
// caller's, nothing happens unless the caller waits here, and every wait has an end. So a session
// that is not renewed ends, as a lease does, and a connection can be left without ending its
// session.
//
// Requests are sent at once and answered in order; a Call dropped before its reply is harmless.
// Callbacks only store what arrived.
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
  // the transaction that created it; the session it ends with, 0: none
  std::int64_t czxid = 0, owner = 0;
  std::int32_t version = 0;  // of its data
  std::int64_t mtime = 0;    // when these were written, by the leader's clock, in ms since 1970
  FencingToken token() const noexcept { return static_cast<FencingToken>(czxid); }
};

struct Reply {
  int rc = 0;                      // of the library: ZOK, ZNONODE...
  std::string text;                // the path that was created, or the node's data
  std::vector<std::string> names;  // children
  NodeStat stat;
  Deadline sent{};  // before the request left
};
// Not answered, or the connection broke: whether it was carried out is unknown.
bool unknown(int rc) noexcept;
// The error for an unexpected reply other than ZOK.
Error server_error(const Options&, std::string_view operation, int rc);

struct Op {
  enum class Kind { check, create, set, remove } kind;
  std::string path;
  std::string data{};
  int version = -1;  // check, set, remove; -1: any
  int flags = 0;     // create
};

using WatchId = std::uint64_t;  // of this process; 0: none

// A session timeout is requested in whole milliseconds.
inline Duration whole_ms(Duration d) { return std::chrono::ceil<std::chrono::milliseconds>(d); }

class Session {
 public:
  // Nothing is sent yet. `timeout` is the requested one, with a lock-delay that is no reason for
  // patience with a server.
  Session(const Options&, Duration timeout, const std::optional<Ticket>& = std::nullopt,
          Duration lock_delay = {});
  // if keep(): leaves the connection and lets the session live on; else closes the session, as far
  // as it is connected
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void keep(bool on) noexcept { keep_ = on; }
  void log_in();  // with the credential of the options, if there is one, beside earlier ones

  enum class State { connecting, connected, expired, denied };
  State state() const;
  // It cannot be used any more.
  bool over() const { return state() == State::expired || state() == State::denied; }
  bool connected() const { return state() == State::connected; }
  std::int64_t id() const;
  Ticket ticket() const;
  Duration requested() const noexcept { return requested_; }
  // as negotiated; valid once connected
  Duration timeout() const;
  // For longer than that servers have ended each connection instead of answering. They do not serve
  // now, or have seen less than we have: their store is an older one, or empty. (The latter would
  // turn us away for ever, but not a Session that takes up the ticket of this one.)
  bool turned_away() const;
  // of this process, each has another number: what is known from an earlier one may be old
  std::uint64_t connection() const noexcept { return connection_; }
  const Proof& proof() const noexcept { return proof_; }
  int alarm_fd();  // readable: there is data from the server
  // The leader's clock, in microseconds since 1970, as a write of the last minute told it; too low
  // by the transit time of that answer. No request asks for the time.
  std::optional<std::int64_t> leader_time() const;

  // Connected, as far as can be seen without a request. Each time the servers' names are looked up
  // anew. Errc::unavailable: not until then (nothing was sent) or interrupted; Errc::denied.
  // Expired is no error here: check state().
  Result<void> connect(Deadline until, int interrupt_fd = -1);

  // Handles events until one arrived or `until` is over or interrupt_fd readable; without a
  // connection it has nothing to wait for (`event`).
  enum class Wake { event, nothing, interrupted };
  Wake listen(Deadline until, int interrupt_fd = -1);

  // Drops the connection, not the session; connect() turns to another server. The outcome of
  // unanswered requests is unknown.
  void drop();

  // A request under way.
  class Call {
   public:
    Call() = default;
    Call(Call&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Call& operator=(Call&& other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~Call();
    bool done() const noexcept;  // or none was made
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

  // Waits for these. False: no reply until then; the connection has been dropped, so none of them
  // can be carried out later unnoticed.
  bool finish(std::initializer_list<const Call*>, Deadline until);

  WatchId new_watch();
  bool fired(WatchId id) const;
  void forget(WatchId id) { watches_.erase(id); }

  std::uint64_t requests = 0;

 private:
  struct Callbacks;
  friend struct Callbacks;
  // The addresses for the next connection; the first ones make the handle.
  Result<void> set_servers(const std::string&);
  // Begins a connection, if there is none, and returns at its end.
  Wake pump(Deadline until, int interrupt_fd);
  template <class Request>
  Call send(bool write, Request);
  bool left() const;  // the library has no connection, nor begins one
  void note_descriptor(int fd, Deadline began);
  void on_state(int state);
  void watch_socket();

  const Options& options_;
  Duration requested_, patience_;
  const Ticket resumed_;  // id 0: a new session
  Proof proof_;
  bool keep_ = false;
  _zhandle* handle_ = nullptr;             // null: no address is known yet
  std::string servers_;                    // the addresses that the library has
  int fd_ = -1;                            // the library's
  Deadline attempt_at_{};                  // when it began to connect
  Deadline turned_away_at_ = no_deadline;  // first, since the last connection
  std::uint64_t connection_ = 0, news_ = 0;
  std::int64_t written_ = 0;  // NodeStat::mtime of the last write
  Deadline written_at_{};     // when its answer came
  std::map<WatchId, bool> watches_;
  Fd alarm_;
  Fd turn_;  // only one process at a time may be connected to a resumed session
};

}  // namespace dlock::zookeeper
