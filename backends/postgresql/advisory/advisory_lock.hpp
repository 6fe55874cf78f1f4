// SPDX-License-Identifier: Apache-2.0
// Which advisory lock a key is (`?key=`), as other programs number theirs, and the statements about
// it. A lock is a bigint, or two ints; pg_locks shows both as 64 bits, and which of them it is.
#pragma once
#include <string>
#include <string_view>
#include "core/error.hpp"
#include "postgresql/client/connection.hpp"

namespace dlock::postgresql {

// The value of $1 in every statement: the text that the server hashes, or the 64 bits. Errc::usage:
// the text is not of that kind.
Result<std::string> lock_value(std::string_view kind, std::string_view text);

// Of one kind; $1: lock_value().
class AdvisoryStatements {
 public:
  explicit AdvisoryStatements(std::string_view kind);

 private:
  const std::string kind_;
  const std::string args_, rows_;  // of the functions; FROM, WHERE: of all that have it or wait

 public:
  // The server ends the session after $1 ms without a message, and not sooner because of its
  // network: keepalive begins after $2 s. See AdvisoryBackend::silence().
  const SqlStatement silence;
  // Lock and record in one. $2: name of the record, $3: owner, $4: ttl, $5: who. A row: the token.
  // In a session that has the lock it succeeds, too.
  const SqlStatement take;
  const SqlStatement beat;   // whether this session has it
  const SqlStatement free;   // whether it had it; all locks of the session, however often taken
  const SqlStatement read;   // $2: name of the record; columns: see AdvisoryBackend
  const SqlStatement there;  // the same without a table
  const SqlStatement end;    // the sessions $2, "PID,PID", of those that have it or wait; $3: ms
  // Waits for the lock of this value; see wait_statement().
  SqlStatement wait(const std::string& value, Duration longest) const;
};

}  // namespace dlock::postgresql
