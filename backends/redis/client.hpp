// SPDX-License-Identifier: Apache-2.0
// Commands and their answers, over as many connections as it takes. Every command that comes through here can be repeated without harm;
// so one whose answer got lost is sent again until its deadline.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/connection.hpp"
#include "redis/handshake.hpp"
#include "redis/locator.hpp"
#include "redis/options.hpp"
#include "redis/script.hpp"
#include "redis/server_error.hpp"

namespace dlock::redis {

// A connection that was greeted by a master.
struct Session {
  std::unique_ptr<Connection> connection;
  Endpoint at;
  ServerFacts facts;
  bool used = false;  // it worked before, so that it fails now may only mean that the server closed it meanwhile
};

struct Command {
  std::string_view what;           // "renew", for messages
  const Script* script = nullptr;  // none: a plain command
  std::vector<std::string> keys;   // of the script; plain: keys[0] chooses the server and is not sent
  std::vector<std::string> words;  // the script's arguments, or the command with its own
  bool grants = false;             // may give a lock away: not sent to a server that may have forgotten one (restart_grace)

  // `by_text`: EVAL instead of EVALSHA, for a server that does not know the script.
  void put(Connection&, bool by_text) const;
};

struct Answer {
  Reply reply;              // not an error
  Deadline sent;            // before the request left that this answers
  bool repeated = false;    // an earlier one may have been carried out as well
  std::int64_t copies = 0;  // replicas that have it, when asked for
  Duration grace_left{};    // above 0: not sent, and the server grants nothing for so long
};

class Client {
 public:
  // Errc::config: a TLS file.
  static Result<std::unique_ptr<Client>> create(Options);

  // Until it is answered or `by` has passed. Errc::timed_out: it may have been carried out; Errc::unavailable: it was not.
  // `copies`: then waits until so many replicas have it, at most half of op_timeout.
  Result<Answer> call(const Command&, Deadline by, unsigned copies = 0);
  // As above, with the usual deadline: op_timeout, and as long as nothing was ever answered connect_timeout on top.
  Result<Answer> call(const Command& command, unsigned copies = 0) { return call(command, usual_deadline(), copies); }
  Deadline usual_deadline() const noexcept;

  // For those who wait on a connection themselves. `mistrust`: closes it at once and has the server looked up again.
  Result<std::unique_ptr<Session>> take(std::string_view key, Wait);
  Result<std::unique_ptr<Session>> take_from(const Endpoint&, Wait);
  // One exchange, no second try. An error reply is an Error.
  Result<Reply> ask(Session&, const Command&);
  void give_back(std::unique_ptr<Session>);
  void mistrust(std::unique_ptr<Session>, std::string_view text = {});

  // Calls `found` for every key on that server that matches.
  template <class Found>
  Result<void> scan(const Endpoint& at, const std::string& pattern, Found found) {
    auto session = take_from(at, {usual_deadline()});
    if (!session) return fail(std::move(session.error()));
    std::string cursor = "0";
    do {
      auto reply = ask(**session, {"list", nullptr, {}, {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}});
      if (!reply) return fail(std::move(reply.error()));
      cursor = reply->text_at(0);
      if (cursor.empty() || reply->items.size() != 2) return fail(Errc::protocol, "list: the answer makes no sense");
      for (const Reply& key : reply->items[1].items) found(std::string_view{key.text});
    } while (cursor != "0");
    give_back(std::move(*session));
    return {};
  }

  // How many replicas have what was written on this session so far.
  Result<std::int64_t> copies(Session&, unsigned wanted);

  Locator& locator() noexcept { return *locator_; }
  const Options& options() const noexcept { return options_; }
  std::uint64_t requests = 0;

 private:
  explicit Client(Options options) : options_(std::move(options)) {}
  struct Attempt;
  Result<std::unique_ptr<Session>> connect(const Endpoint&, Wait);
  Attempt attempt(const Command&, Deadline connect_by, Deadline by, unsigned copies);
  Result<Reply> exchange(Session&, const Command&, bool by_text, Wait);

  Options options_;
  std::optional<TlsContext> tls_;
  std::unique_ptr<Locator> locator_;
  std::vector<std::unique_ptr<Session>> idle_;
  bool ever_connected_ = false;
};

}  // namespace dlock::redis
