// SPDX-License-Identifier: Apache-2.0
// The output of `dlock run --status and --trace`, one JSON object per line.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "support/process.hpp"

namespace dlock::test {

struct Event {
  std::string name;
  double t = 0;  // CLOCK_BOOTTIME, seconds
  nlohmann::json all;
};

// Ends the test program when a line is not an event: {"event":NAME,"t":SECONDS,...}.
Event parse_event(const std::string& line);
std::vector<Event> parse_events(const std::string& text);

const Event* find(const std::vector<Event>&, std::string_view name);
std::string names(const std::vector<Event>&);  // "waiting acquired ... exit"

// A lease in the history of --trace: each grant and each confirmed renewal.
struct Grant {
  double t = 0, deadline = 0;  // CLOCK_BOOTTIME, seconds
};
std::vector<Grant> grants_in(const std::string& trace);

// Events as they arrive, through a pipe.
class EventStream {
 public:
  explicit EventStream(Fd read_end) : lines_(std::move(read_end)) {}
  // The next event of that name; others are skipped (and kept in `seen`). Nothing: not within
  // `seconds`.
  std::optional<Event> wait(std::string_view name, double seconds);
  std::vector<Event>& rest(double seconds);  // everything until the end
  std::vector<Event> seen;

 private:
  Lines lines_;
};

}  // namespace dlock::test
