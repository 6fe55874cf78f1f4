// SPDX-License-Identifier: Apache-2.0
// What holders and waiters say about themselves, and how programs ended. dlock shows these texts to
// people, and makes no decision from them. They are values; any thread may use them.
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

// The program of a run has ended, but processes that it left behind still belong to the job.
struct ProgramEnded {
  struct Process {
    std::int64_t pid = 0;
    std::string name;
  };
  std::int64_t at = 0;  // on the same clock as Identity::since
  RunEnd end;
  std::vector<Process> left;  // some of the processes that it left behind
  // Returns `left` for people, "sshd[1216], cat[1217]", safe to print; empty if `left` is empty.
  std::string left_text() const;
  std::string encode() const;  // the part of an encoded Identity that holds Identity::ended
};
// Replaces the `ended` part of an encoded Identity. An empty `ended` changes nothing.
std::string with_end(std::string_view identity, std::string_view ended);

// How a holder or waiter describes itself. The text is untrusted: print it only through
// printable().
struct Identity {
  std::string host;
  std::string user;  // the numeric user id, which only `host` can turn into a name
  std::int64_t pid = 0;
  std::int64_t since = 0;  // when it sent its request, by the wall clock of `host` in microseconds
  std::string reason;      // --reason
  std::string command;     // only with --publish-command
  unsigned limit = 0;      // --limit of a permit; 0: none
  // Identifies the process even if it is in another PID namespace, or if `pid` was reused. nullopt:
  // not recorded.
  struct Process {
    std::uint64_t start = 0;          // clock ticks since boot (proc(5), field 22)
    std::uint64_t pid_namespace = 0;  // the inode number of /proc/PID/ns/pid
    bool operator==(const Process&) const = default;
  };
  std::optional<Process> process{};
  // Says what keeps the lock. process: the process that this Identity describes. keeper: the
  // background process of acquire --keep. nobody: acquire left the lock to the store, so no process
  // reacts to release --revoke.
  enum class KeptBy : std::uint8_t { process, keeper, nobody } kept_by = KeptBy::process;

  std::optional<ProgramEnded> ended{};

  // Describes this process: host name, pid, user id, and now as `since`.
  static Identity mine(std::string reason);
  // Returns a word of printable ASCII, the format that every store keeps:
  // `host=..&pid=..&user=..&since=..&reason=..&limit=..&proc=..&kept=..&ended=..&left=..`. The
  // values are percent-encoded, and empty values are left out. Readers skip unknown names.
  std::string encode() const;
  static Identity decode(std::string_view text);  // a field that cannot be read stays empty

  bool of_this_host() const;
  // Returns the name of `user` if this host's /etc/passwd has that id, else the number. It does not
  // ask NSS, because a dead directory server must not delay dlock.
  std::string user_name() const;
  std::string text() const;  // "db3:41223 (backup)", safe to print
};

}  // namespace dlock
