// SPDX-License-Identifier: Apache-2.0
// Reads passwords and credentials from files. Checks who may have written or replaced these files
// and files of private keys, and who may read them. Any thread may call these functions. The rules:
//
// * A file of the user must be closed to everybody else.
// * If the user cannot write to a file of root, a platform has mounted it (Kubernetes, Docker,
//   systemd). Everybody may read such a file, but only root may write to it.
// * dlock follows links only if root or the user owns each link and each directory on the way, and
//   nobody else may write to these directories. The same must be true of the way to a file of root
//   that others may read. A directory with the sticky bit, as in Kubernetes' volumes, and a
//   read-only mount are allowed, because nobody else can replace an entry there.
// * dlock reads a pipe of the user once. A shell makes such a pipe for <(COMMAND).
#pragma once
#include <string>
#include "core/error.hpp"

namespace dlock {

struct Secret {
  std::string text;   // the first line
  bool once = false;  // the secret came from a pipe, and cannot be read again
};

// Reads a secret. It waits for the writer of a pipe for at most fifo_patience. Errc::config:
// "'/etc/pw': mode 0644 ..."; the message never contains the secret.
Result<Secret> read_secret(const std::string& path);

// Does the same for credentials in the form SCHEME:CREDENTIAL.
Result<Secret> read_credential(const std::string& path);

// Checks a file that a library will read by its path, so it must not be a pipe. Errc::config.
Result<void> judge_secret(const std::string& path);

// Returns who may read the file, "all users of this machine may read it"; empty: unknown.
std::string readers_of_secret(const std::string& path);

}  // namespace dlock
