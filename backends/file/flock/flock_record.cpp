// SPDX-License-Identifier: Apache-2.0
#include "file/flock/flock_record.hpp"
#include <algorithm>

namespace dlock::file {
namespace {

constexpr unsigned evicted_slot = 1;  // no slots in this recipe: slot 1 marks an evicted holder

// Unlocks on every way out of a function.
struct Unlock {
  StateFile& file;
  ~Unlock() { file.unlock(); }
};

}  // namespace

bool evicted(const LockState::Holder& h) noexcept { return h.slot == evicted_slot; }

FlockRecord::FlockRecord(const Directory& where, const std::string& name, std::string key,
                         Duration patience)
    : file_(where, name),
      key_(std::move(key)),
      locked_(where.path() + "/" + key_),
      patience_(patience) {}

// With Make::nothing, a missing record is read as empty.
Result<KeyRecord> FlockRecord::begin(Make make, Duration patience) {
  TRY(locking, file_.lock(make, patience, -1));
  if (locking != StateFile::Locking::locked) return KeyRecord{};
  TRY(loaded, file_.load());
  loaded.record.key = key_;
  loaded.record.boot = "-";  // nothing here depends on a boot: marks show the living holders
  return std::move(loaded.record);
}

// Commits. False: the record was deleted meanwhile.
Result<bool> FlockRecord::end(const KeyRecord& record) {
  TRY_VOID(file_.commit(record));
  return file_.still_linked();
}

Result<FlockRecord::Entry> FlockRecord::enter(const Request& r, int locked) {
  const Unlock unlock{file_};
  for (;;) {
    TRY(record, begin(Make::all, r.wait ? patience_ : std::min(patience_, one_try)));
    LockState& s = record.state;
    // We have the lock, so a recorded holder whose lock would exclude us has lost it. Each other
    // holder that still has the lock has a mark. A holder without a mark has died without releasing
    // the lock.
    std::erase_if(s.holders, [&](const auto& h) {
      return r.mode == Mode::exclusive || h.mode == Mode::exclusive || !marked(locked, h.token);
    });
    s.fence = std::max<FencingToken>(
        s.fence + 1, static_cast<FencingToken>(std::max<std::int64_t>(wall_micros(), 0)));
    std::optional<Lifeline> mailbox;
    // skip the number of a living FIFO, which belongs to a record that was lost
    for (; !mailbox; ++s.next_ticket) {
      TRY(made, Lifeline::make(file_.place(), s.next_ticket));
      mailbox = std::move(made);
    }
    Entry entry{{r.owner, r.mode, mailbox->ticket(), s.fence, 0, boottime_us(), never, 0,
                 r.identity.encode()},
                std::move(*mailbox)};
    s.holders.push_back(entry.holder);
    auto done = set_mark(locked, entry.holder.token, locked_);
    if (done) {
      const auto counts = end(record);
      if (counts && *counts) return entry;
      clear_mark(locked, entry.holder.token);
      if (!counts) done = fail(counts.error());
    }
    entry.mailbox.drop(file_.place());
    file_.unlock();
    if (!done) return fail(done.error());
  }
}

Result<void> FlockRecord::enter_again(const LockState::Holder& holder) {
  const Unlock unlock{file_};
  TRY(record, begin(Make::all, patience_));
  LockState& s = record.state;
  s.fence = std::max(s.fence, holder.token);
  s.next_ticket = std::max(s.next_ticket, holder.ticket + 1);
  s.holders.push_back(holder);
  const auto counts = end(record);
  return counts ? Result<void>{} : fail(counts.error());
}

Result<void> FlockRecord::note_end(const Owner& owner, std::string_view ended) {
  const Unlock unlock{file_};
  TRY(record, begin(Make::nothing, patience_));
  const LockState before = record.state;
  record.state.note_end(owner, ended);
  if (!(record.state == before)) TRY_VOID(end(record));
  return {};
}

Result<bool> FlockRecord::leave(const Owner& owner, Lifeline& mailbox) {
  const Unlock unlock{file_};
  TRY(record, begin(Make::nothing, patience_));
  auto& holders = record.state.holders;
  const auto mine = [&](const auto& h) { return h.owner == owner; };
  const bool was =
      std::ranges::any_of(holders, [&](const auto& h) { return mine(h) && !evicted(h); });
  if (std::erase_if(holders, mine) > 0) TRY_VOID(end(record));
  mailbox.drop(file_.place());
  return was;
}

Result<FlockRecord::Evicted> FlockRecord::evict(std::optional<FencingToken> token, int file) {
  std::vector<Fd> mailboxes;
  Evicted result;
  {
    const Unlock unlock{file_};
    TRY(record, begin(Make::nothing, patience_));
    for (auto& h : record.state.holders) {
      if ((token && h.token != *token) || !marked(file, h.token)) continue;
      ++(evicted(h) ? result.before : result.now);
      h.slot = evicted_slot;
      TRY(found, probe(file_.place(), h.ticket));
      if (found.life == Probe::Life::alive) mailboxes.push_back(std::move(found.fd));
    }
    if (result.now) TRY_VOID(end(record));
  }
  wake(mailboxes);
  return result;
}

Result<std::optional<LockState>> FlockRecord::peek() {
  TRY(record, file_.peek(StateFile::Depth::holders));
  if (!record) return std::nullopt;
  return std::move(record->state);
}

}  // namespace dlock::file
