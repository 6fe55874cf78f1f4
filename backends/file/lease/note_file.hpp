// SPDX-License-Identifier: Apache-2.0
// Small files beside the state of a key. Their data is rarely needed, and is not part of the state,
// because it would make every change of the state longer.
//
//   started   when the last job was started (--once-per):
//             `dlock-started1 <wall clock, us> <not needed after, us>`
//   revoke    which holders were asked to stop (release --revoke):
//             `dlock-revoke1 <newest token asked>`
//   last      the last run of a job, times by the wall clock:
//             `dlock-last1 <token> <ended> <status> <started> <who> <token>`
//
// The files are written only under the lock of the state, but they may be read without it. A rename
// replaces `started` and `revoke`, so a process that is killed leaves the old or the new file.
// `last` is overwritten in place with each run, because ext4 takes about a millisecond for such a
// rename, and 15 us to overwrite a file. The token is the first and the last field of `last`: if
// both are equal, the whole record is of one run.
#pragma once
#include <cstdint>
#include <optional>
#include "core/error.hpp"
#include "file/lease/lifeline.hpp"
#include "store/backend.hpp"
#include "store/last_run.hpp"

namespace dlock::file {

// nullopt: there is no record. Errc::protocol: the record cannot be read safely.
Result<std::optional<RunStart>> read_beginning(const LifelineDir&);
// When this returns, the record is on the disk.
Result<void> write_start(const LifelineDir&, const RunStart&);
Result<void> forget_start(const LifelineDir&);

Result<std::optional<std::uint64_t>> read_revoked(const LifelineDir&);
Result<void> write_revoked(const LifelineDir&, std::uint64_t newest_token);
void forget_revoked(const LifelineDir&) noexcept;

// nullopt: there is no record, or the record is unreadable. That is not an error, because only
// people read the record.
std::optional<LastRun> read_last_run(const LifelineDir&);
// When this returns, the record may not be on the disk yet, so a power cut may lose the record. A
// failure is ignored, because a release must not depend on the record.
void write_last_run(const LifelineDir&, const LastRun&);

}  // namespace dlock::file
