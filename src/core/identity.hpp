// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlock {

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

  // host name, pid and user id of this process, since = now
  static Identity mine(std::string reason);
  // A word of printable ASCII:
  // `host=..&pid=..&user=..&since=..&reason=..&limit=..&proc=..&kept=..`, values percent-encoded,
  // empty ones left out; readers skip unknown names. The format every backend stores.
  std::string encode() const;
  static Identity decode(std::string_view text);  // unreadable fields stay empty

  bool of_this_host() const;
  // The name of `user` if this host's /etc/passwd has it, else the number. Not NSS: a dead
  // directory server must not delay dlock.
  std::string user_name() const;
  std::string text() const;  // "db3:41223 (backup)", safe to print
};

}  // namespace dlock
