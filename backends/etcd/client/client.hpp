// SPDX-License-Identifier: Apache-2.0
// A client of one etcd cluster: several endpoints, login, requests with deadlines of their own
// (etcd's own errors come after 7 s), watches.
//
// A request that may be repeated is tried at one endpoint after the other, each for its share of
// the time; another one is sent once.
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
  // before the name of every key: "dlock/", or "/app/dlock/" for the path /app
  std::string root;
  bool native = true;  // false: keys are those that `etcdctl lock` makes
};

Result<Options> parse_options(const Url&, const Traits&, const Settings&);  // Errc::usage

// A lease whose id was never used before. A late or repeated LeaseGrant of one id would revive a
// lease that was revoked, and with it what a late request attaches to it.
struct NewLease {
  std::int64_t id = 0;
  Deadline sent{};  // before its LeaseGrant left
};

// On a connection of its own, and without waiting: it wakes, and nothing depends on it.
class Watch {
 public:
  Watch(std::unique_ptr<Http> http, Deadline answer_by, unsigned client_moves)
      : moves(client_moves), http_(std::move(http)), answer_by_(answer_by) {}
  // What has arrived. No events and not `over`: nothing; call it again when events() happen on
  // fd(), or at poll_until() at the latest.
  WatchLine next();
  int fd() const noexcept { return http_->fd(); }
  short events() const noexcept { return http_->events(); }
  Deadline poll_until() const noexcept { return std::min(answer_by_, http_->poll_until()); }
  unsigned moves;  // of the client, when it was made

 private:
  std::unique_ptr<Http> http_;
  Deadline answer_by_;  // when it has to be confirmed
};

class Client {
 public:
  explicit Client(Options options) : options_(std::move(options)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Options& options() const noexcept { return options_; }
  Deadline usual_deadline() const noexcept { return later(Clock::now(), options_.op_timeout); }

  // `what`: "acquire", for messages. Errc::timed_out, Errc::protocol: the outcome is unknown. Any
  // other Error: nothing was done.
  Result<NewLease> grant(std::string_view what, Duration ttl, Deadline until);
  Result<TxnAnswer> txn(std::string_view what, const Json& transaction, Deadline until,
                        bool repeatable = true);
  Result<TxnAnswer> read(std::string_view what, Parts ranges, Deadline until) {
    return txn(what, transaction({}, std::move(ranges), {}), until);
  }
  Result<bool> revoke(std::string_view what, std::int64_t lease, Deadline until);  // false: gone
  // False: the lease has ended. It proves nothing of the future: README.md.
  Result<bool> keep_alive(std::int64_t lease, Deadline until);
  // What the leader says is left of it; nullopt: it has ended.
  Result<std::optional<Duration>> time_left(std::int64_t lease, Deadline until);
  // Begins at the member that the calls go to. `end`: of a range; empty: the key alone.
  Watch watch(const std::string& key, const std::string& end, std::int64_t from, bool puts);
  // False: begin another watch.
  bool is_current(const std::optional<Watch>& w) const noexcept { return w && w->moves == moves_; }
  // Any call that changes nothing, as it is answered.
  Result<Json> query(std::string_view what, std::string_view path, Json body, Deadline until);

  // The wall clock of the member that answered last, in microseconds since 1970: this host's,
  // unless that is a second off.
  std::int64_t store_now() const noexcept { return wall_micros() + clock_off_; }
  std::int64_t clock_off() const noexcept { return clock_off_; }

  bool no_auth() const noexcept { return no_auth_; }
  // For the doctor: all calls go to this endpoint alone.
  Client only(std::size_t endpoint) const;
  std::uint64_t requests = 0;

 private:
  struct Reply {
    Json body;
    bool lease_missing = false, unclear = false;
  };
  // `fresh`: set for each try, and named in the body.
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
  std::size_t at_ = 0;  // of the endpoints
  unsigned moves_ = 0;  // how often it has left a member
  std::string token_;
  bool no_auth_ = false;     // the cluster knows no users
  bool logged_out_ = false;  // it refused our token: log in and send the request again
  std::int64_t clock_off_ = 0;
};

}  // namespace dlock::etcd
