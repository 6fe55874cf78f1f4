// SPDX-License-Identifier: Apache-2.0
// Maps a key to an advisory lock (`?key=`) as other programs do, and has the statements for that
// lock. A lock is a bigint, or two ints. pg_locks shows both as 64 bits, with their kind.
#pragma once
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "postgresql/client/connection.hpp"

namespace dlock::postgresql {

// Returns $1 of every statement: the text that the server hashes, or the 64 bits of the lock.
// Errc::usage: the text does not fit the kind.
Result<std::string> lock_value(std::string_view kind, std::string_view text);

// The statements for one kind of lock; $1 is lock_value().
class AdvisoryStatements {
 public:
  explicit AdvisoryStatements(std::string_view kind);

 private:
  const std::string kind_;
  // args_: the arguments of the lock functions. rows_: the FROM and WHERE that find the sessions
  // that have the lock or wait for it.
  const std::string args_, rows_;

 public:
  // Makes the server end the session after $1 ms without a message. A bad network does not end it
  // earlier, because TCP keepalive begins only after $2 s. See AdvisoryBackend::set_timeout().
  const SqlStatement set_timeout;
  // Takes the lock and writes the record. $2: name of the record, $3: owner, $4: ttl, $5: who.
  // Returns a row with the token. It also succeeds if the session already has the lock.
  const SqlStatement take;
  const SqlStatement has_lock;  // returns whether this session has the lock
  // Releases all locks of the session, however often it took them. Returns whether the session had
  // this lock.
  const SqlStatement free;
  const SqlStatement read;   // $2: name of the record; columns: AdvisoryBackend::read_record
  const SqlStatement there;  // replaces `read` if the table is missing: only what needs no table
  // Ends the sessions in $2, "PID,PID", but only those that have the lock or wait for it. $3: how
  // many ms to wait for the end of each.
  const SqlStatement end;
  // Waits for the lock of this value; see wait_statement().
  SqlStatement wait(const std::string& value, Duration longest) const;
};

}  // namespace dlock::postgresql
