// SPDX-License-Identifier: Apache-2.0
// Commands and their replies, over as many connections as needed. Every command sent through here
// can be repeated without harm; so one whose reply was lost is sent again until its deadline.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/backend.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/wire/connection.hpp"
#include "redis/wire/credentials.hpp"
#include "redis/wire/grace.hpp"
#include "redis/wire/handshake.hpp"
#include "redis/wire/locator.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/script.hpp"
#include "redis/wire/server_error.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

// A connection that was greeted by a master.
struct Session {
  std::unique_ptr<Connection> connection;
  Endpoint at;
  ServerFacts facts;
  // it worked before: a failure now may only mean that the server closed it meanwhile
  bool used = false;
  unsigned credentials = 0;  // their version at the greeting
};

// How a command is sent.
struct Manner {
  bool by_text = false;  // EVAL instead of EVALSHA, for a server without the script
  bool asking = false;   // behind ASKING: the server is about to get the slot of its keys
  bool alone = false;    // with Command::enough keys
};

struct Command {
  std::string_view what;           // "renew", for messages
  const Script* script = nullptr;  // none: a plain command
  // of the script; plain: keys[0] chooses the server and is not sent
  std::vector<std::string> keys;
  std::vector<std::string> words;  // the script's arguments, or the command with its own
  // may grant a lock: not sent to a server that may have lost one (restart_grace)
  bool grants = false;
  // a script that also works with so many of its keys, in a slot that is being moved; 0: with all
  // of them only
  std::size_t enough = 0;

  // Behind ASKING there are two replies, the second one is the command's.
  void put(Connection&, Manner) const;
};

struct Answer {
  Reply reply;              // not an error
  Deadline sent;            // before the answered request was sent
  bool repeated = false;    // an earlier one may have been carried out as well
  std::int64_t copies = 0;  // replicas that have it, when requested
  // Above 0: the server may have forgotten locks, and grants nothing for this long. What grants was
  // not sent, and a holder that is not found may be there all the same.
  Duration grace_left{};
};

class Client {
 public:
  // Errc::config: a TLS file.
  static Result<std::unique_ptr<Client>> create(Options);

  // Until it is answered. After `by` nothing is begun again; but connecting, the greeting and the
  // request have op_timeout each, so that a slow way to a server that answers takes as many round
  // trips as it needs. Errc::timed_out: it may have been carried out;
  // Errc::unavailable: it was not. `copies`: then waits until so many replicas have it, at most
  // half of op_timeout.
  Result<Answer> call(const Command&, Deadline by, unsigned copies = 0);
  // As above, with the usual deadline: op_timeout, plus connect_timeout until there was an answer
  // once.
  Result<Answer> call(const Command& command, unsigned copies = 0) {
    return call(command, usual_deadline(), copies);
  }
  Deadline usual_deadline() const noexcept;

  // How and where to send the same command again after this reply; nothing: not at all. (NOSCRIPT;
  // ASK and TRYAGAIN of a cluster.)
  struct Detour {
    std::optional<Endpoint> to;  // nothing: the same server
    Manner manner;
  };
  std::optional<Detour> detour(const Session&, const Command&, const Reply&, Manner) const;

  // false: nothing was ever sent, so there is nothing to undo
  bool ever_connected() const noexcept { return ever_connected_; }

  // A held lease is never ended by the rule of within_grace.
  void gave() noexcept { gave_ = true; }
  bool gave_any() const noexcept { return gave_; }

  // Health::outage_fd: an idle connection was closed by the server, or has broken; taking one clears
  // that.
  Health health();

  // For callers that wait on a connection themselves. `invalidate`: closes it at once and looks the
  // server up again next time.
  Result<std::unique_ptr<Session>> take(std::string_view key, Wait);
  Result<std::unique_ptr<Session>> take_from(const Endpoint&, Wait);
  // One exchange, without a retry. An error reply is an Error.
  Result<Reply> ask(Session&, const Command&);
  void give_back(std::unique_ptr<Session>);
  void invalidate(std::unique_ptr<Session>, std::string_view text = {});

  Result<std::vector<Endpoint>> servers();  // all that have keys
  // Calls `found` for every key on that server that matches.
  template <class Found>
  Result<void> scan(const Endpoint& at, const std::string& pattern, Found found) {
    TRY(session, take_from(at, {usual_deadline()}));
    grants_nothing |= session->facts.grace_left(options_.restart_grace) > Duration{};
    std::string cursor = "0";
    do {
      TRY(reply, ask(*session,
                     {"list", nullptr, {}, {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}}));
      cursor = reply.text_at(0);
      if (cursor.empty() || reply.items.size() != 2)
        return fail(Errc::protocol, "list: malformed reply");
      for (const Reply& key : reply.items[1].items) found(std::string_view{key.text});
    } while (cursor != "0");
    give_back(std::move(session));
    return {};
  }

  // The same on all servers, for every key that matches one of `patterns`, which have a prefix.
  template <class Found>
  Result<void> scan_all(const std::vector<std::string>& patterns, Found found) {
    TRY_VOID(can_list(options_.prefix));
    grants_nothing = false;
    TRY(all, servers());
    for (const Endpoint& at : all)
      for (const std::string& pattern : patterns) TRY_VOID(scan(at, pattern, found));
    return {};
  }

  // KeyView::unread behind this answer.
  std::string unread(const Answer& answer) const {
    return answer.grace_left > Duration{} ? unread_note(options_.restart_grace, answer.grace_left)
                                          : "";
  }
  // Released::was_not_held; Errc::unavailable if the server may have forgotten the holder.
  Result<Released> none_found(std::string_view what, const Answer& answer) const;

  // The number of replicas that have what was written on this session so far.
  Result<std::int64_t> copies(Session&, unsigned wanted);

  Locator& locator() noexcept { return *locator_; }
  const Options& options() const noexcept { return options_; }
  std::uint64_t requests = 0;
  // The last answer to a waiter was that the server is in its grace; so is one that was scanned.
  bool grants_nothing = false;

 private:
  explicit Client(Options options) : options_(std::move(options)) {}
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
  struct Attempt;
  Result<std::unique_ptr<Session>> connect(const Endpoint&, Wait);
  Attempt attempt(const Command&, Deadline connect_by, Deadline by, unsigned copies);
  Result<Reply> exchange(Session&, const Command&, Manner, Wait);
  void warn(std::string);
  void watch(const Session&) noexcept;
  void drop_broken();

  Options options_;
  Credentials credentials_{options_};
  std::unique_ptr<Locator> locator_;
  std::vector<std::unique_ptr<Session>> idle_;
  Fd outage_;  // epoll(7) of idle_
  bool ever_connected_ = false, gave_ = false;
  std::optional<Deadline> first_answer_by_;
  std::vector<std::string> warnings_;
};

}  // namespace dlock::redis
