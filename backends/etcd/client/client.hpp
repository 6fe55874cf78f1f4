// SPDX-License-Identifier: Apache-2.0
// A client of one etcd cluster: several endpoints, login, watches, and requests with their own
// deadlines (etcd's own timeout is 7 s). Only one thread uses it.
//
// If a request can be repeated, the client tries one endpoint after the other, each for its share
// of the time. It sends any other request once.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "common/net/credentials.hpp"
#include "common/url_items.hpp"
#include "etcd/client/api.hpp"
#include "etcd/client/http.hpp"

namespace dlock::etcd {

inline constexpr std::uint16_t usual_port = 2379;

struct Options : LoginOptions {
  std::vector<Endpoint> endpoints;
  // precedes the name of every key: "dlock/", or "/app/dlock/" for the path /app
  std::string root;
  bool native = true;  // false: the keys are those of `etcdctl lock`
};

Result<Options> parse_options(const Url&, const Traits&, const Settings&);  // Errc::usage

// A lease with an id that was never used before. If an id were used again, a late or repeated
// LeaseGrant could revive a revoked lease, and a late request could then attach a key to the lease.
struct NewLease {
  std::int64_t id = 0;
  Deadline sent{};  // a time before its LeaseGrant was sent
};

// A watch on its own connection. Its functions never block. A watch only wakes a waiter or holder
// earlier, and nothing else depends on it.
class Watch {
 public:
  Watch(std::unique_ptr<Http> http, Deadline answer_by, unsigned client_moves)
      : moves(client_moves), http_(std::move(http)), answer_by_(answer_by) {}
  // Returns what has arrived. If the result has neither events nor `over`, nothing has arrived:
  // call it again when events() happen on fd(), and no later than poll_until().
  WatchLine next();
  int fd() const noexcept { return http_->fd(); }
  short events() const noexcept { return http_->events(); }
  Deadline poll_until() const noexcept { return std::min(answer_by_, http_->poll_until()); }
  unsigned moves;  // the client's `moves_` when the watch began

 private:
  std::unique_ptr<Http> http_;
  Deadline answer_by_;  // etcd must confirm the watch by then
};

class Client {
 public:
  explicit Client(Options options) : options_(std::move(options)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Options& options() const noexcept { return options_; }
  Deadline usual_deadline() const noexcept { return later(Clock::now(), options_.op_timeout); }

  // `what` is for messages, such as "acquire". Errc::timed_out or Errc::protocol: the outcome is
  // unknown. Any other Error: nothing was done.
  Result<NewLease> grant(std::string_view what, Duration ttl, Deadline until);
  Result<TxnAnswer> txn(std::string_view what, const Json& transaction, Deadline until,
                        bool repeatable = true);
  Result<TxnAnswer> read(std::string_view what, Parts ranges, Deadline until) {
    return txn(what, transaction({}, std::move(ranges), {}), until);
  }
  // false: the lease does not exist
  Result<bool> revoke(std::string_view what, std::int64_t lease, Deadline until);
  // Returns whether the lease existed. True proves nothing about the future (README.md says why).
  Result<bool> keep_alive(std::int64_t lease, Deadline until);
  // Returns how much of the lease is left by the leader's clock; nullopt: the lease has ended.
  Result<std::optional<Duration>> time_left(std::int64_t lease, Deadline until);
  // Begins a watch at the member to which this client sends its calls. `end`: the end of the range
  // of keys; if it is empty, the watch is on one key. `from`: the first revision to report. If
  // `puts` is set, the watch reports writes, too, and not only deletions.
  Watch watch(const std::string& key, const std::string& end, std::int64_t from, bool puts);
  // False: there is no watch, or the client has left the member of the watch. Then begin another
  // watch.
  bool is_current(const std::optional<Watch>& w) const noexcept { return w && w->moves == moves_; }
  // Sends a call that changes nothing, and returns the reply.
  Result<Json> query(std::string_view what, std::string_view path, Json body, Deadline until);

  // Returns the time of the member that replied last, in microseconds since 1970. A reply names
  // only the second, so if both clocks are in the same second, the result is this host's time.
  std::int64_t store_now() const noexcept { return wall_micros() + clock_off_; }
  std::int64_t clock_off() const noexcept { return clock_off_; }

  bool no_auth() const noexcept { return no_auth_; }
  // For the doctor: returns a client whose calls go to this endpoint only.
  Client only(std::size_t endpoint) const;
  std::uint64_t requests = 0;

 private:
  struct Reply {
    Json body;
    bool lease_missing = false, unclear = false;
  };
  // If `fresh` is given, each try writes a new lease to it, and the id of that lease to `body`.
  Result<Reply> call(std::string_view what, std::string_view path, Json body, Deadline until,
                     bool repeatable = true, NewLease* fresh = nullptr);
  Result<Reply> judge(std::string_view what, HttpAnswer&&);
  Result<void> connect(std::string_view what, Deadline until);
  Result<std::unique_ptr<Http>> dial(Deadline until, Deadline heard_by);
  std::unique_ptr<Http> new_connection(Deadline until);
  Result<void> login(Http&, Deadline until);
  void leave();

  Options options_;
  Credentials credentials_{options_};
  std::unique_ptr<Http> http_;
  std::size_t at_ = 0;  // the index of the endpoint in use
  unsigned moves_ = 0;  // how often the client has left a member
  std::string token_;
  bool no_auth_ = false;     // authentication is not enabled in the cluster
  bool logged_out_ = false;  // the member refused our token, so log in and send the request again
  std::int64_t clock_off_ = 0;
};

}  // namespace dlock::etcd
