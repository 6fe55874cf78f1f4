// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "report/lines.hpp"
#include "report/outcome.hpp"
#include "run/plan.hpp"
#include "store/backend.hpp"
#include "util/fd.hpp"
#include "util/writer.hpp"

namespace dlock::run {

// How long dlock waits at its end for a stalled reader of stderr or --status.
inline constexpr Duration exit_flush_time = std::chrono::seconds{2};

// The output about one acquisition: messages on stderr, one JSON object per line for --status, and
// the history for --trace. Any thread may call it. Only flush() waits for a reader, with a bound.
// If the Writer's buffer is full, a line is dropped.
class Output {
 public:
  explicit Output(const Plan&);
  ~Output() = delete;   // its writer lives as long as the process
  Result<void> open();  // opens the files; Errc::cannot_create

  // Writes {"event":name,"t":seconds of CLOCK_BOOTTIME,...} to the status outputs. With -v it also
  // prints `milestone`. With -vv it also prints the names of events without a milestone.
  void status(const char* name, Fields = {}, const std::string& milestone = {});
  std::string age() const;  // the time since dlock started

  // Writes one line of history: {"t":ns,"pid":..,"ev":..,"f":..,"key":..,"owner":..}. Each
  // operation has first a line with `invoke`, and then exactly one line with ok, fail or info
  // (unknown). If an acquire waits, a line with `queued` comes between them, as soon as the store
  // has replied that the attempt waits. The `invoke` line of an acquire also has the mode of a lock
  // that is not exclusive; for a permit it has the limit, too. `owner` is the owner of the last
  // attempt or grant.
  void trace(const char* ev, const char* f, Fields = {});
  void trace_attempt(const Owner&);  // call it when an acquisition begins
  void trace_granted(const Lease&);

  // Print "dlock: LINE" on stderr. With -q, inform() and warn() print nothing.
  void inform(std::string_view line);
  void warn(std::string_view line);
  void error(std::string_view line);
  // For an error before anything began. It prints the error, waits until it is written, and returns
  // the outcome with its exit status.
  Outcome give_up(const Error&);
  void raw(std::string text);  // writes the waiting line to stderr, unchanged

  std::string key() const;  // the key, safe to print

  // "nightly is held by db3:41223 (backup) for 31m", or another reason to wait
  std::string held_line(const Waiting&) const;
  // held_line(), followed by "; not waiting" or "; waited 5s". Empty with -q, and also with -E 0
  // unless -v is given, so that cron jobs can skip silently.
  std::string busy_line(const Waiting&) const;

  // Like busy_line(), for a queue that is too long.
  std::string crowded_line(const Waiting&) const;

  // "nightly was started 3m ago (--once-per hour)"; empty in the same cases as busy_line().
  std::string started_line(const RunStarts&) const;
  // Like started_line(), for a recorded start that is in the future. corrected: the record has been
  // changed to the present time.
  enum class Record { as_it_was, corrected };
  std::string started_ahead_line(const RunStarts&, Record) const;

  bool flush(Duration bound) { return writer_.flush(bound); }

 private:
  void remember(const Owner&);
  bool skips_silently() const;
  // Returns `other`, safe to print; if `other` is empty, returns key().
  std::string key_in_the_way(const std::string& other) const;
  void message(const char* level, std::string_view line);

  const Plan& plan_;
  const Deadline began_ = Clock::now();
  Writer& writer_;
  Fd status_file_, trace_file_;
  std::atomic<std::uint32_t> owner_ = 0;  // the first bytes of the id, which are not secret
};

}  // namespace dlock::run
