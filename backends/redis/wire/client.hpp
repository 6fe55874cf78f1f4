// SPDX-License-Identifier: Apache-2.0
// Commands and their replies, over as many lines as needed.
#pragma once
#include <utility>
#include "redis/wire/line.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/options.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

struct Answer {
  Reply reply;              // not an error
  Deadline sent;            // before the answered request was sent
  bool repeated = false;    // an earlier one may have been carried out as well
  std::int64_t copies = 0;  // replicas that have it, when requested
  // Above 0: the server may have forgotten locks, and grants nothing for this long. What is
  // withheld then was not sent, and a holder that is not found may be there all the same.
  Duration grace_left{};
};

class Client {
 public:
  // Errc::config: a TLS file.
  static Result<std::unique_ptr<Client>> create(Options);

  // Until it is answered: every command can be repeated without harm, so one whose reply was lost
  // is sent again. After the usual deadline nothing is begun again; but connecting, the greeting
  // and the request have op_timeout each, so that a slow way to a server that answers takes as many
  // round trips as it needs. Errc::timed_out: it may have been carried out; Errc::unavailable: it
  // was not.
  Result<Answer> call(const Command&);
  // op_timeout, plus connect_timeout until there was an answer once.
  Deadline usual_deadline() const noexcept;

  // false: nothing was ever sent, so there is nothing to undo
  bool ever_connected() const noexcept { return ever_connected_; }

  // Health::outage_fd: an idle line was closed by the server, or has broken; taking one clears
  // that.
  Health health();

  // A line to the master that has the key, or to that one.
  Result<std::unique_ptr<Line>> line_for(std::string_view key, Wait);
  Result<std::unique_ptr<Line>> line_to(const Endpoint&, Wait);
  void give_back(std::unique_ptr<Line>);
  // Closes it at once, and looks the server up again next time.
  void invalidate(std::unique_ptr<Line>, std::string_view text = {});
  // One request on a line, without a retry. An error reply is an Error, or a result like others.
  Result<Reply> request(Line&, const Command&);
  Result<Reply> request_any(Line&, const Command&, Manner, Duration patience);

  // Calls `found` for every key on that server that matches.
  template <class Found>
  Result<void> scan(const Endpoint& at, const std::string& pattern, Found found) {
    TRY(line, line_to(at, {usual_deadline()}));
    grants_nothing |= line->facts().grace_left(options_.restart_grace) > Duration{};
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

  // The same on all servers, for every key that matches one of `patterns`, which have a prefix.
  template <class Found>
  Result<void> scan_all(const std::vector<std::string>& patterns, Found found) {
    TRY_VOID(can_list(options_.prefix));
    grants_nothing = false;
    TRY(servers, with_credentials([&] { return locator_->everyone({usual_deadline()}); }));
    for (const Endpoint& at : servers)
      for (const std::string& pattern : patterns) TRY_VOID(scan(at, pattern, found));
    return {};
  }

  // KeyView::unread behind this answer.
  std::string unread(const Answer& answer) const {
    return answer.grace_left > Duration{} ? unread_note(options_.restart_grace, answer.grace_left)
                                          : "";
  }

  Locator& locator() noexcept { return *locator_; }
  const Options& options() const noexcept { return options_; }
  std::uint64_t requests = 0;
  // The last answer to a waiter was that the server is in its grace; so is one that was scanned.
  bool grants_nothing = false;

 private:
  friend class Exchange;
  explicit Client(Options options) : options_(std::move(options)) {}
  Line::Shared shared() noexcept { return {options_, credentials_, requests}; }
  // of one exchange, unless it is the first attempt to reach a server, which --connect-timeout ends
  Deadline own_time(Deadline by) const noexcept;
  // Does it again, as long as what was refused is not what the files say by now.
  template <class Do>
  auto with_credentials(Do it) {
    for (;;) {
      const unsigned version = credentials_.version();
      auto done = it();
      if (done || done.error().code != Errc::denied || !credentials_.newer_than(version))
        return done;
    }
  }
  Result<std::unique_ptr<Line>> connect(const Endpoint&, Wait);
  void warn(std::string);
  void watch(const Line&) noexcept;
  void drop_broken();

  Options options_;
  Credentials credentials_{options_};
  std::unique_ptr<Locator> locator_;
  std::vector<std::unique_ptr<Line>> idle_;
  Fd outage_;  // epoll(7) of idle_
  bool ever_connected_ = false;
  std::optional<Deadline> first_answer_by_;
  std::vector<std::string> warnings_;
};

// One command, from the search for its server to the answer: it goes where NOSCRIPT, ASK and
// TRYAGAIN send it. When it was refused or its line closed it is over, and its sender decides
// whether to repeat it in another exchange.
class Exchange {
 public:
  Exchange(Client& client, Command command) : client_(client), command_(std::move(command)) {}
  ~Exchange();  // the line is used again, unless a reply is still under way
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Result<Answer> run(Deadline connect_by);  // all of it, without an interruption

  Result<void> begin(Wait);  // connects, and sends
  // The answer; nothing: the wait is over, and it may still come. At the latest op_timeout after it
  // was sent there is one, or an error.
  Result<std::optional<Answer>> await(Wait);
  // Reads the replies to what was sent, and sends nothing more.
  void drain(Wait);

  // The end of the server's grace, from its greeting on.
  Deadline grants_from() const noexcept { return grants_from_; }
  bool withheld() const noexcept;

  // After an error. Whether it may have been carried out, and whether a repetition may help:
  enum class Again {
    never,
    later,
    elsewhere,  // another server, or another login, may be right by now
    at_once,    // most likely the server had closed an idle line
  };
  bool sent() const noexcept { return sent_; }
  Again again() const noexcept { return again_; }

  // After an answer, on the same line: how many replicas have it. Waits until as many as ?replicas=
  // wants do, at most half of op_timeout.
  Result<std::int64_t> copies();
  std::unique_ptr<Line> release_line() { return std::move(line_); }
  const Line& line() const noexcept { return *line_; }

 private:
  Result<void> go_to(const Endpoint&);
  void put(Manner);
  Error closed(Error);
  Error refused(const Reply&);
  Error failed(Error);

  Client& client_;
  const Command command_;
  std::unique_ptr<Line> line_;
  Manner manner_;
  bool skip_ = false;  // the next reply is that of ASKING
  bool used_ = false;  // the line worked before
  Wait connect_{};
  Answer answer_;
  Deadline grants_from_{};
  bool sent_ = false;
  Again again_ = Again::never;
};

// How and where to send the same command again after this error; nothing: not at all. (NOSCRIPT;
// ASK and TRYAGAIN of a cluster.)
struct Detour {
  std::optional<Endpoint> to;  // nothing: the same server
  Manner manner;
};
std::optional<Detour> detour(const Options&, const Line&, const Command&, const Reply&, Manner);

std::string glob_escape(std::string_view);  // for a pattern of scan

}  // namespace dlock::redis
