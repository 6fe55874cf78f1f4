// SPDX-License-Identifier: Apache-2.0
// One session with an ensemble, on the library's single-threaded interface: no thread but the caller's, nothing happens unless somebody waits here, and every
// wait has an end. So a session that nobody renews ends, as a lease does, and a connection can be left without ending its session.
//
// Requests are sent at once and answered in order; a Call that is forgotten before its answer is harmless. Callbacks only note what came.
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
#include "zookeeper/proof.hpp"

struct _zhandle;

namespace dlock::zookeeper {

// With these a session is taken up again by another process: 16 and 32 hex digits.
struct Ticket {
  std::int64_t id = 0;
  std::string password;  // 16 bytes

  std::string text() const;
  static std::optional<Ticket> parse(std::string_view);
};

struct NodeStat {
  std::int64_t czxid = 0, owner = 0;  // the transaction that made it; the session it ends with, 0: none
  std::int32_t version = 0;           // of its data
};

struct Reply {
  int rc = 0;                      // of the library: ZOK, ZNONODE...
  std::string text;                // the path that was created, or the node's data
  std::vector<std::string> names;  // children
  NodeStat stat;
  std::vector<int> results;  // of a multi, one by one
  Deadline sent{};           // before the request left
};

struct Op {
  enum class Kind { check, create, set, remove } kind;
  std::string path;
  std::string data{};
  int version = -1;  // check, set, remove; -1: any
  int flags = 0;     // create
};

using WatchId = std::uint64_t;  // 0: none

class Session {
 public:
  // Nothing is sent yet. `timeout` is what is asked for; `connections` where connections() begins to count.
  Session(const Options&, Duration timeout, std::optional<Ticket> = std::nullopt, std::uint64_t connections = 0);
  ~Session();  // if keep(): lets the connection go and the session live on; else closes the session, as far as it is connected
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void keep(bool on) noexcept { keep_ = on; }

  enum class State { connecting, connected, expired, denied };
  State state() const;
  std::int64_t id() const;
  Ticket ticket() const;
  Duration asked() const noexcept { return asked_; }
  Duration timeout() const;  // as negotiated; valid once connected
  std::uint64_t connections() const noexcept {
    return connections_;
  }  // rises whenever it connects: what was learned before may be old
  const Proof& proof() const noexcept { return proof_; }
  int alarm_fd();  // readable: the server has something to say

  // Connected, as far as can be seen without asking. Errc::unavailable: not until then (nothing was sent) or interrupted; Errc::denied.
  // Expired is no error here: look at state().
  Result<void> connect(Deadline until, int interrupt_fd = -1);

  // Handles what comes until something has (true) or `until` is over or interrupt_fd readable.
  enum class Heard { something, nothing, interrupted };
  Heard listen(Deadline until, int interrupt_fd = -1);

  // The connection is given up, not the session; the next listen() turns to another server. What was not answered is not known to have happened.
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
    bool done() const noexcept;
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
  Call exists(const std::string& path, WatchId = 0);
  Call remove(const std::string& path);
  Call set(const std::string& path, const std::string& data);
  Call sync(const std::string& path);
  Call acl(const std::string& path);
  Call multi(std::vector<Op>);

  // Waits for these. False: no answer until then; the connection has been dropped, so none of them can be carried out later without our knowing.
  bool finish(std::initializer_list<const Call*>, Deadline until);

  WatchId new_watch();
  bool fired(WatchId id) const;
  void forget(WatchId id) { watches_.erase(id); }

  std::uint64_t requests = 0;

 private:
  struct Callbacks;
  friend struct Callbacks;
  Call::State* begin(bool write);
  Call begun(Call::State*, int rc);
  void note_descriptor(int fd, Deadline began);
  void on_state(int state);
  void watch_socket();

  const Options& options_;
  Duration asked_;
  Proof proof_;
  bool keep_ = false;
  _zhandle* handle_ = nullptr;
  int init_error_ = 0;
  int fd_ = -1;            // the library's
  Deadline attempt_at_{};  // when it began to connect
  std::uint64_t connections_ = 0, news_ = 0;
  WatchId last_watch_ = 0;
  std::map<WatchId, bool> watches_;
  Fd alarm_;
  Fd turn_;  // only one process at a time may be connected to a session that was taken up again
};

// Not answered, or the connection broke: whether it was carried out is not known.
bool unknown(int rc) noexcept;
// What an answer other than ZOK means to a caller that did not expect it.
Error server_error(const Options&, std::string_view operation, int rc);

}  // namespace dlock::zookeeper
