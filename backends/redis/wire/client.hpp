// SPDX-License-Identifier: Apache-2.0
// Sends commands and returns their replies, over as many connections as needed. Only one thread may
// use a Client.
#pragma once
#include <utility>
#include "redis/wire/connection.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/options.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

struct TimedReply {
  Reply reply;              // not an error
  Deadline sent;            // a time before the answered request was sent
  bool repeated = false;    // an earlier attempt may have been carried out, too
  std::int64_t copies = 0;  // how many replicas have the change (Command::confirmed)
  // Above 0: the server may have lost locks, and grants nothing for this long. A command that must
  // then be withheld was not sent (InGrace). A holder may exist even if the server found none.
  Duration grace_left{};
};

class Client {
 public:
  // Errc::config: a TLS file is wrong.
  static Result<std::unique_ptr<Client>> create(Options);

  // Repeats the command until a reply comes, because every command can be repeated without harm.
  // Begins no new attempt after usual_deadline(). Connecting, the greeting and the request may each
  // take op_timeout, so that a slow path to a server still has time for all round trips.
  // Errc::timed_out: the command may have been carried out. Errc::unavailable: it was not.
  Result<TimedReply> call(const Command&);
  // Returns now + op_timeout. Until a server has replied once, it adds connect_timeout.
  Deadline usual_deadline() const noexcept;

  // false: no request was ever sent, so nothing needs an undo
  bool ever_connected() const noexcept { return ever_connected_; }

  // Health::outage_fd becomes readable when an idle connection is closed or breaks. It stays
  // readable until the client takes a connection for the next request.
  Health health();

  // Returns a connection to the master that has the key, or to the given server.
  Result<std::unique_ptr<Connection>> line_for(std::string_view key, Wait);
  Result<std::unique_ptr<Connection>> line_to(const Endpoint&, Wait);
  void give_back(std::unique_ptr<Connection>);
  // Closes the connection at once. The next request looks the server up again. `text`: the error
  // reply that is the reason to close it; empty: there was none.
  void invalidate(std::unique_ptr<Connection>, std::string_view text = {});
  // Send one request on a connection, without a retry. For an error reply, request() returns an
  // Error, and request_any() returns the Reply.
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

  // Calls `found` for every key on all servers that matches one of `patterns`. Each pattern
  // contains the prefix.
  template <class Found>
  Result<void> scan_all(const std::vector<std::string>& patterns, Found found) {
    TRY_VOID(can_list(options_.prefix));
    in_grace_period = false;
    TRY(servers, with_credentials([&] { return locator_->everyone({usual_deadline()}); }));
    for (const Endpoint& at : servers)
      for (const std::string& pattern : patterns) TRY_VOID(scan(at, pattern, found));
    return {};
  }

  // Returns KeyView::unknown_reason for a view made from this reply.
  std::string unread(const TimedReply& answer) const {
    return answer.grace_left > Duration{} ? unread_note(options_.restart_grace, answer.grace_left)
                                          : "";
  }

  Locator& locator() noexcept { return *locator_; }
  const Options& options() const noexcept { return options_; }
  std::uint64_t requests = 0;
  // Whether the server was in its grace period at the last reply to a waiter or to a scan.
  bool in_grace_period = false;

 private:
  friend class Exchange;
  explicit Client(Options options) : options_(std::move(options)) {}
  Connection::Shared shared() noexcept { return {options_, credentials_, requests}; }
  // Returns the deadline of one exchange. It is `by`, but if a server has replied before, the
  // exchange gets at least op_timeout from now.
  Deadline own_time(Deadline by) const noexcept;
  // Calls `it`. If the server refuses our credentials and the files have newer credentials, calls
  // `it` again.
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
  Fd outage_;  // an epoll(7) descriptor for the connections of idle_
  bool ever_connected_ = false;
  std::optional<Deadline> first_answer_by_;
  std::vector<std::string> warnings_;
};

// The exchange of one command, from the search for its server to the reply. After the error reply
// NOSCRIPT, ASK or TRYAGAIN it sends the command again, as detour() says. It ends when the server
// refuses the command or the connection closes. Then the caller decides whether to repeat the
// command in another exchange.
class Exchange {
 public:
  Exchange(Client& client, Command command) : client_(client), command_(std::move(command)) {}
  ~Exchange();  // the connection is kept for reuse, unless a reply is outstanding
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Calls begin(), await() and, if the command must be confirmed, copies(). Cannot be interrupted.
  Result<TimedReply> run(Deadline connect_by);

  Result<void> begin(Wait);  // connects and sends the command
  // Returns the reply. nullopt: the wait is over, but the reply may still come. At the latest
  // op_timeout after the command was sent, there is a reply or an error.
  Result<std::optional<TimedReply>> await(Wait);
  // Reads outstanding replies, and sends nothing more.
  void drain(Wait);

  // Returns the end of the server's grace period; known after the greeting.
  Deadline grants_from() const noexcept { return grants_from_; }
  bool withheld() const noexcept;

  // Whether a repetition may help after an error.
  enum class Again {
    never,
    later,
    elsewhere,  // another server, or another login, may be right by now
    at_once,    // most likely the server had closed an idle connection
  };
  bool sent() const noexcept { return sent_; }
  Again again() const noexcept { return again_; }

  // Waits until as many replicas have the change as ?replicas= demands, but at most half of
  // op_timeout, and returns how many have it. Call it after a reply, because it uses the same
  // connection.
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
  bool skip_ = false;  // the next reply is for ASKING
  bool used_ = false;  // the connection has worked before
  Wait connect_{};
  TimedReply answer_;
  Deadline grants_from_{};
  bool sent_ = false;
  Again again_ = Again::never;
};

// Says how and where to repeat a command after an error reply: NOSCRIPT, or ASK and TRYAGAIN of a
// cluster. nullopt from detour(): do not repeat the command.
struct Detour {
  std::optional<Endpoint> to;  // nullopt: the same server
  Manner manner;
};
std::optional<Detour> detour(const Options&, const Connection&, const Command&, const Reply&,
                             Manner);

std::string glob_escape(std::string_view);  // for the pattern of a scan

}  // namespace dlock::redis
