// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/wire/client.hpp"

namespace dlock::redis {

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
  // Takes the replies to what was sent, and sends nothing more.
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
  std::unique_ptr<Line> take_line() { return std::move(line_); }
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

}  // namespace dlock::redis
