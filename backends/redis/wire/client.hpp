// SPDX-License-Identifier: Apache-2.0
// Commands and their replies, over as many connections as needed. For a single thread.
#pragma once
#include <utility>
#include "redis/wire/connection.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/options.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

struct TimedReply {
  Reply reply;              // not an error
  Deadline sent;            // before the answered request was sent
  bool repeated = false;    // an earlier one may have been carried out as well
  std::int64_t copies = 0;  // the number of replicas that have it, if requested
  // Above 0: the server may have lost locks, and grants nothing for this long. A withheld command
  // was not sent, and a holder that is not found may exist all the same.
  Duration grace_left{};
};

class Client {
 public:
  // Errc::config: a TLS file is wrong.
  static Result<std::unique_ptr<Client>> create(Options);

  // Repeats the command until it is answered: every command may be repeated without harm. After the
  // usual deadline it begins no new attempt. Connecting, the greeting and the request have
  // op_timeout each, so that a slow way to a server that answers gets the round trips that it
  // needs. Errc::timed_out: the command may have been carried out; Errc::unavailable: it was not.
  Result<TimedReply> call(const Command&);
  // op_timeout, plus connect_timeout until a server has answered once.
  Deadline usual_deadline() const noexcept;

  // false: nothing was ever sent, so nothing needs to be undone
  bool ever_connected() const noexcept { return ever_connected_; }

  // Health::outage_fd: readable when the server has closed an idle connection, or when it broke.
  // Taking a connection clears it.
  Health health();

  // Returns a connection to the master that has the key, or to the given server.
  Result<std::unique_ptr<Connection>> line_for(std::string_view key, Wait);
  Result<std::unique_ptr<Connection>> line_to(const Endpoint&, Wait);
  void give_back(std::unique_ptr<Connection>);
  // Closes the connection at once, and looks the server up again next time.
  void invalidate(std::unique_ptr<Connection>, std::string_view text = {});
  // Sends one request on a connection, without a retry. An error reply becomes an Error, or a Reply
  // if the command wants it.
  Result<Reply> request(Connection&, const Command&);
  Result<Reply> request_any(Connection&, const Command&, Manner, Duration patience);

  // Calls `found` for every matching key on that server.
  template <class Found>
  Result<void> scan(const Endpoint& at, const std::string& pattern, Found found) {
    TRY(line, line_to(at, {usual_deadline()}));
    in_grace_period |= line->facts().grace_left(options_.restart_grace) > Duration{};
    std::string cursor = "0";
    do {
      TRY(reply, request(*line, {.what = "list",
                                 .args = {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}}));
      cursor = reply.text_at(0);
      if (cursor.empty() || reply.items.size() != 2)
        return fail(Errc::protocol, "list: malformed reply");
      for (const Reply& key : reply.items[1].items) found(std::string_view{key.text});
    } while (cursor != "0");
    give_back(std::move(line));
    return {};
  }

  // Calls `found` for every key, on all servers, that matches one of `patterns`, which have a
  // prefix.
  template <class Found>
  Result<void> scan_all(const std::vector<std::string>& patterns, Found found) {
    TRY_VOID(can_list(options_.prefix));
    in_grace_period = false;
    TRY(servers, with_credentials([&] { return locator_->everyone({usual_deadline()}); }));
    for (const Endpoint& at : servers)
      for (const std::string& pattern : patterns) TRY_VOID(scan(at, pattern, found));
    return {};
  }

  // KeyView::unread for a view made from this answer.
  std::string unread(const TimedReply& answer) const {
    return answer.grace_left > Duration{} ? unread_note(options_.restart_grace, answer.grace_left)
                                          : "";
  }

  Locator& locator() noexcept { return *locator_; }
  const Options& options() const noexcept { return options_; }
  std::uint64_t requests = 0;
  // The last reply to a waiter, or to a scan, said that the server is in its grace period.
  bool in_grace_period = false;

 private:
  friend class Exchange;
  explicit Client(Options options) : options_(std::move(options)) {}
  Connection::Shared shared() noexcept { return {options_, credentials_, requests}; }
  // the deadline of one exchange, except for the first attempt to reach a server, which
  // --connect-timeout ends
  Deadline own_time(Deadline by) const noexcept;
  // Repeats the call while the server refuses credentials that the files no longer have.
  template <class Do>
  auto with_credentials(Do it) {
    for (;;) {
      const unsigned version = credentials_.version();
      auto done = it();
      if (done || done.error().code != Errc::denied || !credentials_.newer_than(version))
        return done;
    }
  }
  Result<std::unique_ptr<Connection>> connect(const Endpoint&, Wait);
  void warn(std::string);
  void watch(const Connection&) noexcept;
  void drop_broken();

  Options options_;
  Credentials credentials_{options_};
  std::unique_ptr<Locator> locator_;
  std::vector<std::unique_ptr<Connection>> idle_;
  Fd outage_;  // an epoll(7) on the connections of idle_
  bool ever_connected_ = false;
  std::optional<Deadline> first_answer_by_;
  std::vector<std::string> warnings_;
};

// One command, from finding its server to the answer. It follows NOSCRIPT, ASK and TRYAGAIN. It is
// over when it was refused or its connection closed; then its sender decides whether to repeat it
// in another exchange.
class Exchange {
 public:
  Exchange(Client& client, Command command) : client_(client), command_(std::move(command)) {}
  ~Exchange();  // the connection is kept for reuse, unless a reply is outstanding
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Result<TimedReply> run(Deadline connect_by);  // does everything, without interruption

  Result<void> begin(Wait);  // connects, and sends
  // Returns the answer. Nothing: the wait is over, and the answer may still come. No later than
  // op_timeout after sending there is an answer or an error.
  Result<std::optional<TimedReply>> await(Wait);
  // Reads outstanding replies, and sends nothing more.
  void drain(Wait);

  // The end of the server's grace period, known from its greeting on.
  Deadline grants_from() const noexcept { return grants_from_; }
  bool withheld() const noexcept;

  // After an error: whether a repetition may help.
  enum class Again {
    never,
    later,
    elsewhere,  // another server, or another login, may be right by now
    at_once,    // most likely the server had closed an idle line
  };
  bool sent() const noexcept { return sent_; }
  Again again() const noexcept { return again_; }

  // After an answer, on the same connection: the number of replicas that have it. Waits until as
  // many as ?replicas= demands have it, at most half of op_timeout.
  Result<std::int64_t> copies();
  std::unique_ptr<Connection> release_line() { return std::move(line_); }
  const Connection& line() const noexcept { return *line_; }

 private:
  Result<void> go_to(const Endpoint&);
  void put(Manner);
  Error closed(Error);
  Error refused(const Reply&);
  Error failed(Error);

  Client& client_;
  const Command command_;
  std::unique_ptr<Connection> line_;
  Manner manner_;
  bool skip_ = false;  // the next reply answers ASKING
  bool used_ = false;  // the connection worked before
  Wait connect_{};
  TimedReply answer_;
  Deadline grants_from_{};
  bool sent_ = false;
  Again again_ = Again::never;
};

// How and where to send the same command again after this error (NOSCRIPT; a cluster's ASK and
// TRYAGAIN). Nothing: do not.
struct Detour {
  std::optional<Endpoint> to;  // nothing: the same server
  Manner manner;
};
std::optional<Detour> detour(const Options&, const Connection&, const Command&, const Reply&,
                             Manner);

std::string glob_escape(std::string_view);  // for the pattern of a scan

}  // namespace dlock::redis
