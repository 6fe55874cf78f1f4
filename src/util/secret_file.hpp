// SPDX-License-Identifier: Apache-2.0
// Files of passwords, credentials and private keys: who may have written or replaced them, and who
// may read them. Any thread.
//
// A file of the user's own lets nobody else in. A file of root's that the user may not write is
// what a platform mounts (Kubernetes, Docker, systemd): any mode, but nobody else may write to it.
// Links are followed, and such files of root's read, if root or the user owns each link and each
// directory on the way, and nobody else may write to these directories. Of a directory with the
// sticky bit, as Kubernetes' volumes have it, nobody else can replace an entry; nor of one on a
// read-only mount. A pipe of the user's own, as a shell makes it for <(COMMAND), is read once.
#pragma once
#include <string>
#include "core/error.hpp"

namespace dlock {

struct Secret {
  std::string text;   // the first line
  bool once = false;  // of a pipe: it cannot be read again
};

// Errc::config, "'/etc/pw': mode 0644 ..."; never the content. A pipe is waited for (fifo_patience).
Result<Secret> read_secret(const std::string& path);

// The same of credentials, SCHEME:CREDENTIAL.
Result<Secret> read_credential(const std::string& path);

// Of a file that a library will read, by its path: so no pipe. Errc::config.
Result<void> judge_secret(const std::string& path);

// "all users of this machine may read it"; empty: it cannot be judged.
std::string readers_of_secret(const std::string& path);

}  // namespace dlock
