// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dlock {

// Who somebody says they are: shown to people, never used to decide anything. Others wrote it: print only through printable().
struct Identity {
  std::string host;
  std::string user;  // the numeric user id, which `host` alone can turn into a name
  std::int64_t pid = 0;
  std::int64_t since = 0;  // wall clock of that host in microseconds, when it asked
  std::string reason;      // --reason
  std::string command;     // only with --publish-command

  static Identity mine(std::string reason);  // host name, pid and user id of this process, since = now
  // One line of printable ASCII without spaces: `host=..&pid=..&user=..&since=..&reason=..`, values percent-encoded, empty
  // ones left out. The format every backend stores.
  std::string encode() const;
  static Identity decode(std::string_view text);  // what cannot be read stays empty

  bool of_this_host() const;
  // The name of `user` if this host's /etc/passwd knows it, else the number. Not NSS: a dead directory server must delay nobody.
  std::string user_name() const;
  std::string text() const;  // "db3:41223 (backup)", safe to print
};

}  // namespace dlock
