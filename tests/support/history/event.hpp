// SPDX-License-Identifier: Apache-2.0
// The content of `--trace` files: one JSON object per line, written by many processes of one
// machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::history {

enum class What {
  invoke,
  ok,
  fail,
  info,    // of a request; info: its outcome is unknown
  queued,  // the store has answered: this attempt is in the queue
  child_start,
  alive,
  term_sent,
  kill_sent,
  tree_dead,  // of a job; alive is written by the job itself
  exit,
  write,  // to the guarded resource: token, accepted, value
  fault,  // begin and end of an injected fault
  left,   // found in the store or on the machine after everything has ended
};

struct Event {
  std::int64_t t = 0;  // nanoseconds of CLOCK_BOOTTIME
  std::int64_t pid = 0;
  What what = What::invoke;
  std::string f, key, owner;  // f: acquire, renew, release, job, run
  std::string mode;           // of an acquire's invoke; empty: exclusive
  std::string name, phase;    // of a fault: its name; begin or end. Of what was left: its name
  std::optional<std::uint64_t> token;
  std::optional<std::int64_t> deadline, value, limit, code;
  bool accepted = false;
  // of a fault: exclusion is not promised while it lasts, tokens alone protect
  bool fenced_only = false;
  std::string line;  // as it was read
};

struct Reading {
  std::vector<Event> events;  // by t; those of one file keep their order
  std::size_t torn = 0;       // files whose last line is incomplete, because the writer died
  std::string error;          // "FILE:LINE: what is wrong"; empty: none
};

// Nothing when the line is no event of a history.
std::optional<Event> parse(std::string_view line);

// Adds the lines of one file's content. A last line without a newline is counted as torn and left
// out.
void read(std::string_view name, std::string_view content, Reading& into);
void sort_by_time(Reading&);

}  // namespace dlock::history
