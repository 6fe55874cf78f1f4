// SPDX-License-Identifier: Apache-2.0
// One exchange with a server: how long it may take, and the errors that every store reports alike,
// "<what> at <where>: ...".
#pragma once
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock {

// How long to wait. `interrupt_fd` readable ends the wait early; it is not read.
struct Wait {
  Deadline until;
  int interrupt_fd = -1;

  bool over() const noexcept { return Clock::now() >= until; }
  bool interrupted() const noexcept;
};
// Until `events` happen on `fd` (true; or it is broken, which the next read or write reports), or
// the wait is over.
bool wait_for(int fd, short events, const Wait&) noexcept;

// Errc::unavailable: this server is read-only, whatever its account may do.
Result<void> writable(const std::string& where, bool read_only);

// Sleeps; true: the whole time.
bool nap(Duration, int interrupt_fd) noexcept;
// The pause after so many failures of the same request. Random, so that clients with the same
// problem do not retry in step.
Duration pause_after(unsigned failures) noexcept;

// What may help when a server refused a request.
enum class Remedy {
  later,      // nothing was written: the same request may succeed in a moment
  reconnect,  // the connection is gone; whether it was carried out is unknown
  elsewhere,  // this server is not the right one, or does not write now; another may be
  create,     // a table is missing
  send_text,  // the server lacks the script; send its text once
  none,       // an administrator has to change something first
};

Error no_answer(std::string_view what, std::string_view where);        // Errc::timed_out
Error malformed_reply(std::string_view what, std::string_view where);  // Errc::protocol
// Errc::usage: `record`, "node x", is of a layout that only a newer dlock knows.
Error newer_record(std::string_view record, std::string_view where, unsigned layout);
// `text` comes from the server: it is made printable and short. `advice`: for people, may be empty.
Error refused(Errc, std::string_view what, std::string_view where, std::string_view text,
              std::string_view advice);

}  // namespace dlock
