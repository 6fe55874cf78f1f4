// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"

namespace dlock::redis {

class Line;

// A Lua script on the server. Constant text: keys are in KEYS, data in ARGV, nothing is ever
// inserted into the text.
struct Script {
  std::string_view text;
  std::string_view sha;  // 40 lower-case hex digits, for EVALSHA
};

// How a command is sent.
struct Manner {
  bool by_text = false;       // EVAL instead of EVALSHA, for a server without the script
  bool asking = false;        // behind ASKING: the server is about to get the slot of its keys
  bool alone = false;         // with Command::enough keys
  std::string_view number{};  // before the words; empty: none
};

// A command that can be repeated without harm.
struct Command {
  // What becomes of it at a server that is in its restart_grace, and may have lost a lock.
  enum class InGrace {
    sent,      // it grants nothing
    withheld,  // it may grant
    told,      // it may grant unless its last word, put behind the others, is "1" and not "0"
  };

  std::string_view what;           // "renew", for messages
  const Script* script = nullptr;  // none: a plain command
  // of the script; plain: keys[0] chooses the server and is not sent
  std::vector<std::string> keys;
  std::vector<std::string> words;  // the script's arguments, or the command with its own
  InGrace in_grace = InGrace::sent;
  // a script that also works with so many of its keys, in a slot that is being moved; 0: with all
  // of them only
  std::size_t enough = 0;
  bool confirmed = false;  // waits for the replicas that ?replicas= wants

  // Behind ASKING there are two replies, the second one is the command's. `last`: behind the words,
  // if not empty.
  void put(Line&, Manner, Deadline answer_by, std::string_view last = {}) const;
};

// Time spans as arguments: whole microseconds, not negative; and for PX and PEXPIRE whole
// milliseconds, rounded up and never 0.
inline std::string micros(Duration d) {
  return std::to_string(std::max<Duration::rep>(0, d.count()));
}
inline std::string millis(Duration d) {
  return std::to_string(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
}

}  // namespace dlock::redis
