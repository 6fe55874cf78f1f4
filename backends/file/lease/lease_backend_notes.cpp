// SPDX-License-Identifier: Apache-2.0
// Recipe lease: records of starts of jobs, and revocations.
#include <algorithm>
#include "file/lease/lease_backend.hpp"
#include "file/lease/note_file.hpp"

namespace dlock::file {

// ---- --once-per --------------------------------------------------------------------------------
Result<RunStarts> LeaseBackend::starts(const Key& wanted) {
  KeyStore& key = store(wanted);
  // Read without the lock, because a stopped process may hold the lock.
  TRY(record, key.file().peek(StateFile::Depth::holders));
  RunStarts s{.now = wall_micros(), .last = {}};
  if (!record) return s;
  TRY(note, read_beginning(key.place()));
  if (note && note->until <= s.now) {  // no longer needed: remove it if the state is not locked
    const auto begun = key.begin(Make::nothing, Duration{});
    const Change change(key);
    if (begun && *begun == KeyStore::Begun::locked)
      if (const auto same = read_beginning(key.place()); same && *same && (*same)->until <= s.now)
        (void)forget_start(key.place());
  } else if (note) {
    s.last = *note;
  }
  return s;
}

Result<UpdateResult> LeaseBackend::note_start(const Lease& lease, const RunStartUpdate& change) {
  KeyStore& key = store(lease.key);
  TRY(begun, begin(key, Make::nothing));
  if (begun == KeyStore::Begun::absent) return UpdateResult::not_held;
  const Change locked(key);
  if (!key.state().holder(lease.owner, key.now())) return UpdateResult::not_held;
  TRY(noted, read_beginning(key.place()));
  if (!change.fits(noted, wall_micros())) return UpdateResult::other_start;
  TRY_VOID(change.is ? write_start(key.place(), *change.is) : forget_start(key.place()));
  return UpdateResult::yes;
}

// ---- the last run ------------------------------------------------------------------------------
// Call it under the lock of the state. If there are several permits, only the newest grant is
// recorded.
void LeaseBackend::note_run(KeyStore& key, const LockState::Holder& h, std::optional<RunEnd> end) {
  if (!end || adopted(h)) return;
  if (h.token < key.state().fence)  // the record of a newer grant must stay
    if (const auto last = read_last_run(key.place()); last && last->token >= h.token) return;
  const std::int64_t now = wall_micros();
  // `since` of an attached holder is the time of its grant
  write_last_run(key.place(), {h.token, now, *end, now - std::max<Micros>(0, key.now() - h.since),
                               Identity::decode(h.meta)});
}

// ---- release --revoke --------------------------------------------------------------------------
Result<Released> LeaseBackend::revoke(const Key& wanted) {
  KeyStore& key = store(wanted);
  TRY(begun, begin(key, Make::nothing));
  if (begun == KeyStore::Begun::absent) return Released::was_not_held;
  const Change change(key);
  FencingToken newest = 0;
  for (const auto& h : key.state().holders) {
    if (h.deadline <= key.now() || adopted(h)) continue;
    newest = std::max(newest, h.token);
    // An attached holder reads the revocation at once. The holder of a lease reads it at its next
    // renewal.
    if (h.deadline == never) key.alarm(h.ticket);
  }
  if (newest == 0) return Released::was_not_held;
  TRY_VOID(write_revoked(key.place(), newest));
  TRY(done, key.finish());
  if (!done) return revoke(wanted);  // the state file was deleted meanwhile
  return Released::yes;
}

Result<bool> LeaseBackend::is_revoked(KeyStore& key, FencingToken token) {
  TRY(meant, read_revoked(key.place()));
  return meant && token <= *meant;
}

}  // namespace dlock::file
