// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

// How a program ended.
struct RunEnd {
  bool by_signal = false;
  int value = 0;             // the signal, or the exit status
  std::string text() const;  // "0", or "s15" for a signal
  static std::optional<RunEnd> parse(std::string_view);
};

// The program of a run has ended, and processes that it left behind are still of the job.
struct ProgramEnded {
  struct Process {
    std::int64_t pid = 0;
    std::string name;
  };
  std::int64_t at = 0;  // as Identity::since
  RunEnd end;
  std::vector<Process> left;  // those that were left then, or some of them
  // "sshd[1216], cat[1217]", safe to print; empty: none is named
  std::string left_text() const;
  std::string encode() const;  // the part of an encoded Identity that Identity::ended has
};
// An encoded Identity, with another `ended` (encoded); empty: unchanged.
std::string with_end(std::string_view identity, std::string_view ended);

// The description that a holder or waiter gives of itself: shown to people, never used for
// decisions. Untrusted text: print only through printable().
struct Identity {
  std::string host;
  std::string user;  // the numeric user id, which only `host` can turn into a name
  std::int64_t pid = 0;
  std::int64_t since = 0;  // wall clock of that host in microseconds, at its request
  std::string reason;      // --reason
  std::string command;     // only with --publish-command
  unsigned limit = 0;      // of a permit: --limit; 0: it said none
  // Which process `pid` is, beyond its reuse and in which namespace; nothing: it was not said.
  struct Process {
    std::uint64_t start = 0;          // clock ticks since boot (proc(5), field 22)
    std::uint64_t pid_namespace = 0;  // the inode number of /proc/PID/ns/pid
    bool operator==(const Process&) const = default;
  };
  std::optional<Process> process{};
  // keeper: that of acquire --keep, in the background. nobody: acquire left it to the store, and no
  // process listens to release --revoke.
  enum class KeptBy : std::uint8_t { process, keeper, nobody } kept_by = KeptBy::process;

  std::optional<ProgramEnded> ended{};

  // host name, pid and user id of this process, since = now
  static Identity mine(std::string reason);
  // A word of printable ASCII:
  // `host=..&pid=..&user=..&since=..&reason=..&limit=..&proc=..&kept=..&ended=..&left=..`, values
  // percent-encoded, empty ones left out; readers skip unknown names. The format every backend
  // stores.
  std::string encode() const;
  static Identity decode(std::string_view text);  // unreadable fields stay empty

  bool of_this_host() const;
  // The name of `user` if this host's /etc/passwd has it, else the number. Not NSS: a dead
  // directory server must not delay dlock.
  std::string user_name() const;
  std::string text() const;  // "db3:41223 (backup)", safe to print
};

}  // namespace dlock
