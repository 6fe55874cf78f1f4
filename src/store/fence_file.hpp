// SPDX-License-Identifier: Apache-2.0
// `dlock fence`: keeps in a file the newest fencing token that a resource has seen, and locks that
// file while a command works on the resource. It is a Backend, so that the code of `run` waits for
// the lock, and the guard holds the lock until the command ends.
//
// The file has two slots of 4096 bytes. A slot is "dlock-fence1 <number of the record> <token>
// <checksum>", padded with spaces and a newline. Of the records with a valid checksum, the record
// with the greater number is in force. A new record overwrites the other slot and is fsynced before
// the command starts. So a crash at any moment, even of the machine, leaves the old token or the
// new one.
#pragma once
#include <memory>
#include <string>
#include "store/backend.hpp"

namespace dlock {

extern const Traits fence_traits;

// Opens the Backend for one command with this token. If the file has a newer token, the first poll
// returns Errc::stale: nothing may run. Errc::denied or cannot_create: the file cannot be used.
std::unique_ptr<Backend> fence_file(std::string path, FencingToken token, int interrupt_fd);

}  // namespace dlock
