// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include "core/backend.hpp"
#include "run/plan.hpp"
#include "util/fd.hpp"
#include "util/writer.hpp"

namespace dlock::run {

// What dlock tells the world about one acquisition: own words on stderr, one JSON object per line for --status-fd and
// --status-file, and the history for --trace. Any thread may call; nothing here waits for a reader.
class Events {
 public:
  explicit Events(const Plan&);
  ~Events() = delete;   // its writer lives as long as the process
  Result<void> open();  // the files; Errc::cannot_create

  using Value = std::variant<std::int64_t, double, std::string>;
  using Fields = std::initializer_list<std::pair<const char*, Value>>;

  // {"event":name,"t":seconds of CLOCK_BOOTTIME,...} to the status outputs.
  void status(const char* name, Fields = {});

  // One line of history: {"t":ns,"pid":..,"ev":..,"f":..,"key":..,"owner":..}. `invoke`, then exactly one of ok, fail and info (unknown).
  void trace(const char* ev, const char* f, Fields = {});
  void trace_invoke(const char* f) { trace("invoke", f); }
  void trace_result(const char* f, const char* ev, std::optional<Deadline> deadline = {});
  void trace_granted(const Lease&);

  // `dlock: ` + line on stderr. words: not with -q; error: always.
  void words(std::string_view line);
  void error(std::string_view line);
  void raw(std::string text);  // to stderr as it is: the waiting line on a terminal

  // "nightly is held by db3:41223 (backup) for 31m", or what else is in the way
  std::string held_line(const std::optional<HolderView>&, const std::string& why) const;
  // The same with ", not waiting"; empty when nobody wants to hear it: -q, or -E 0, with which cron skips in silence.
  std::string busy_line(const std::optional<HolderView>&, const std::string& why) const;

  // "nightly was started 3m ago (--once-per hour)"; empty as above.
  std::string started_line(Duration ago) const;
  // The same of a start in the future; corrected: the record says now instead.
  std::string started_ahead_line(Duration ahead, bool corrected) const;

  bool flush(Duration bound) { return writer_.flush(bound); }

 private:
  void tell(std::string_view name, Fields);  // with -v the milestones, with -vv each event, as words
  void own_word(const char* level, std::string_view line);

  const Plan& plan_;
  Writer& writer_;
  Fd status_file_, trace_file_;
};

}  // namespace dlock::run
