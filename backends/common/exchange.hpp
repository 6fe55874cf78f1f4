// SPDX-License-Identifier: Apache-2.0
// One exchange with a server: its time limit, and the errors that every store reports in the same
// form, "<what> at <where>: ...".
#pragma once
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock {

// How long to wait. A readable `interrupt_fd` ends the wait; its data is not read.
struct Wait {
  Deadline until;
  int interrupt_fd = -1;

  bool over() const noexcept { return Clock::now() >= until; }
  bool interrupted() const noexcept;
};
// Waits for `events` on `fd`. True: one of the events has happened, or the descriptor is broken;
// then the next read or write reports the error. False: the wait is over or was interrupted.
bool wait_for(int fd, short events, const Wait&) noexcept;

// If `read_only` is set, returns Errc::unavailable: this server refuses writes, whatever rights the
// account has.
Result<void> writable(const std::string& where, bool read_only);

// Sleeps. Returns whether it slept for the whole time; false: it was interrupted.
bool nap(Duration, int interrupt_fd) noexcept;
// Returns the pause after this number of failures of one request. It is random, so that clients
// with the same problem do not retry at the same moment.
Duration pause_after(unsigned failures) noexcept;
// Like pause_after(), but for failed tries to connect, which cost the server more than requests do.
// The pause grows from 20 ms to 500 ms.
Duration pause_before_connect(unsigned failures) noexcept;

// What may help when a server has refused a request.
enum class Remedy {
  later,      // nothing was written: the same request may succeed in a moment
  reconnect,  // the connection is gone, so it is unknown whether the request was carried out
  elsewhere,  // this server is the wrong one, or accepts no writes now; try another server
  create,     // a table is missing: create it, and send the request again
  send_text,  // the server does not know the script, so send its text once
  none,       // an administrator has to change something first
};

// A row of a store's table of server errors.
template <class Id>
struct ServerErrorRow {
  Id id;  // the server's own code
  Remedy remedy;
  Errc code;
  std::string_view advice{};  // for people; may be empty
};

Error no_answer(std::string_view what, std::string_view where);        // Errc::timed_out
Error malformed_reply(std::string_view what, std::string_view where);  // Errc::protocol
// Errc::usage: a newer dlock wrote the record, and this dlock does not know its layout. `record`
// names the record, such as "node x".
Error newer_record(std::string_view record, std::string_view where, unsigned layout);
// `text` comes from the server, so it is made printable and short. `advice` is for people and may
// be empty.
Error refused(Errc, std::string_view what, std::string_view where, std::string_view text,
              std::string_view advice);

}  // namespace dlock
