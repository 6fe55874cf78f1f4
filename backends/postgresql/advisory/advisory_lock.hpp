// SPDX-License-Identifier: Apache-2.0
// Maps a key to an advisory lock (`?key=`) in the ways of other programs, and has the statements
// for that lock. A lock is a bigint, or two ints. pg_locks shows both as 64 bits, with their kind.
#pragma once
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "postgresql/client/connection.hpp"

namespace dlock::postgresql {

// Returns $1 of every statement: the text that the server hashes, or the 64 bits. Errc::usage: the
// text does not fit the kind.
Result<std::string> lock_value(std::string_view kind, std::string_view text);

// The statements for one kind of lock; $1 is lock_value().
class AdvisoryStatements {
 public:
  explicit AdvisoryStatements(std::string_view kind);

 private:
  const std::string kind_;
  // arguments of the functions; FROM and WHERE for the sessions that have it or wait for it
  const std::string args_, rows_;

 public:
  // Makes the server end the session after $1 ms without a message, and not earlier because of its
  // network: keepalive begins after $2 s. See AdvisoryBackend::set_timeout().
  const SqlStatement set_timeout;
  // Takes the lock and writes the record. $2: name of the record, $3: owner, $4: ttl, $5: who.
  // Returns a row with the token. It also succeeds in a session that has the lock.
  const SqlStatement take;
  const SqlStatement has_lock;  // returns whether this session has the lock
  // Releases all locks of the session, however often taken. Returns whether it had this lock.
  const SqlStatement free;
  const SqlStatement read;   // $2: name of the record; columns: see AdvisoryBackend
  const SqlStatement there;  // the same without a table
  const SqlStatement end;    // ends the sessions $2, "PID,PID", with the lock or a wait; $3: ms
  // Waits for the lock of this value; see wait_statement().
  SqlStatement wait(const std::string& value, Duration longest) const;
};

}  // namespace dlock::postgresql
