// SPDX-License-Identifier: Apache-2.0
#include "file/lease/key_store.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include "file/lease/note_file.hpp"
#include "file/sys_error.hpp"
#include "store/key_view.hpp"

namespace dlock::file {
namespace {

// No random owner begins with eight zero bytes.
Owner owner_of_adopted(std::uint64_t ticket) {
  Owner o;
  for (std::size_t i = 0; i < 8; ++i)
    o.bytes[15 - i] = static_cast<std::uint8_t>(ticket >> (8 * i));
  return o;
}

// Calls what(ticket, life) for each FIFO of a key.
template <class What>
Result<void> each_fifo(const LifelineDir& at, What what) {
  Fd again(::openat(at.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* dir = again ? ::fdopendir(again.get()) : nullptr;
  if (!dir) return fail_errno("list", std::string(at.path), errno);
  again.release();
  Result<void> good;
  while (const dirent* entry = good ? ::readdir(dir) : nullptr) {
    const auto ticket = ticket_of(entry->d_name);
    if (!ticket) continue;
    const auto found = probe(at, *ticket);
    if (found) what(*ticket, found->life);
    else good = fail(found.error());
  }
  ::closedir(dir);
  return good;
}

bool lists(const LockState& s, std::uint64_t ticket) {
  const auto same = [ticket](const auto& c) { return c.ticket == ticket; };
  return std::ranges::any_of(s.holders, same) || std::ranges::any_of(s.waiters, same);
}

// `this_boot`: whether the holder's times are on the clock of this boot.
HolderView view_of_ended(LockState::Holder h, Micros now, bool this_boot) {
  const bool attached = h.deadline == never;
  if (attached || !this_boot) {
    h.deadline = now;
    h.delay = 0;
  }
  HolderView v = view(h, now);
  v.attached = attached;
  return v;
}

}  // namespace

bool adopted(const LockState::Holder& h) noexcept { return h.token == 0; }

Result<KeyStore::Begun> KeyStore::begin(Make make, Duration patience, int interrupt_fd) {
  TRY(begun, file_.lock(make, patience, interrupt_fd));
  if (begun != Begun::locked) return begun;
  now_ = boottime_us();
  if (auto loaded = load(); !loaded) {
    abandon();
    return fail(std::move(loaded.error()));
  }
  return begun;
}

Result<void> KeyStore::load() {
  TRY(loaded, file_.load());
  record_ = std::move(loaded.record);
  record_.key = key_.text();
  if (loaded.fresh) TRY_VOID(scan(true));
  else if (record_.boot != boot_id()) TRY_VOID(other_boot());
  record_.boot = boot_id();
  return {};
}

Result<void> KeyStore::load_for(const Owner& owner) {
  if (state().rank_of(owner) < state().waiters.size()) return {};
  return file_.load_tail(record_);
}

std::uint64_t KeyStore::join(const LockState::Acquisition& a) {
  record_.joins =
      LockState::Waiter{a.owner, a.mode, a.limit, state().next_ticket++, never, false, a.meta};
  return record_.joins->ticket;
}

void KeyStore::abandon() noexcept {
  file_.unlock();
  record_.joins.reset();
  wake_head_ = false;
  dead_.clear();
  strays_.clear();
  alarms_.clear();
}

void KeyStore::remove_dead(std::uint64_t ticket) {
  LockState& s = state();
  s.vanish(ticket, now_);
  // Set `since` to the start of the lock-delay, by this clock: other_boot() compares it with `now`.
  for (auto& h : s.holders)
    if (h.ticket == ticket) h.since = h.deadline;
  dead_.push_back(ticket);
}

bool KeyStore::remove_adopted(const Lifeline& life) {
  return life && std::erase_if(state().holders, [&](const auto& h) {
                   return adopted(h) && h.ticket == life.ticket();
                 }) > 0;
}

Result<void> KeyStore::restart_and_adopt() {
  TRY(loaded, file_.reload());
  record_ = std::move(loaded.record);
  record_.key = key_.text();
  record_.boot = boot_id();
  dead_.clear();
  strays_.clear();
  alarms_.clear();
  return scan(true);
}

Result<void> KeyStore::scan(bool adopt) {
  TRY_VOID(file_.load_tail(record_));
  return each_fifo(place(), [&](std::uint64_t ticket, Probe::Life life) {
    if (adopt) state().next_ticket = std::max(state().next_ticket, ticket + 1);
    if (lists(state(), ticket)) return;  // known to the state
    if (life == Probe::Life::dead) strays_.push_back(ticket);
    else if (life == Probe::Life::alive && adopt)
      state().holders.push_back(
          {owner_of_adopted(ticket), Mode::exclusive, ticket, 0, 0, now_, never, 0, {}});
  });
}

// Called when the record has another boot id than this process. Then the machine has restarted, or
// only a container has got a boot id of its own, so the id alone decides nothing. If a contender
// has a lifeline, the lifeline shows whether the contender is alive. If the time of a lease's grant
// is in the future of this clock, the lease was granted in an earlier boot. Any other lease keeps
// its deadline, which is at most its ttl away.
Result<void> KeyStore::other_boot() {
  TRY_VOID(file_.load_tail(record_));
  std::vector<std::uint64_t> gone;
  const auto check_life = [&](std::uint64_t ticket, bool missing_is_gone) -> Result<void> {
    TRY(found, probe(place(), ticket));
    if (found.life == Probe::Life::dead || (missing_is_gone && found.life == Probe::Life::missing))
      gone.push_back(ticket);
    return {};
  };
  for (const auto& h : state().holders) {
    if (h.deadline != never && h.since > now_) gone.push_back(h.ticket);
    if (h.deadline != never) continue;
    TRY_VOID(check_life(h.ticket, false));
  }
  for (const auto& w : state().waiters) TRY_VOID(check_life(w.ticket, true));
  for (const std::uint64_t ticket : gone) remove_dead(ticket);
  return {};
}

// Opens the mailboxes of the waiters and holders to wake. A dead waiter is removed, and the next
// waiter is invited instead.
Result<std::vector<Fd>> KeyStore::mailboxes() {
  std::vector<Fd> open;
  const auto add = [&](std::uint64_t ticket, bool waits) -> Result<bool> {
    TRY(found, probe(place(), ticket));
    const bool dead = waits && found.life != Probe::Life::alive;
    if (found.life == Probe::Life::alive) open.push_back(std::move(found.fd));
    if (dead) remove_dead(ticket);
    return !dead;
  };
  LockState& s = state();
  for (bool all_alive = false; !all_alive;) {
    all_alive = true;
    TRY(invited, file_.invite(record_, now_, tuning_.claim));
    for (const std::uint64_t ticket : invited) {
      TRY(alive, add(ticket, true));
      all_alive &= alive;
    }
  }
  if (wake_head_ && !s.waiters.empty() && !s.waiters[0].invited)
    TRY_VOID(add(s.waiters[0].ticket, false));
  for (const std::uint64_t ticket : alarms_) TRY_VOID(add(ticket, false));
  return open;
}

void KeyStore::remove_names(const std::vector<std::uint64_t>& tickets) const {
  for (const std::uint64_t ticket : tickets) ::unlinkat(place().dir, fifo_name(ticket).c_str(), 0);
}

Result<bool> KeyStore::finish() {
  const auto open = mailboxes();
  const auto done = open ? file_.commit(record_) : fail(open.error());
  if (!done) {
    abandon();
    return fail(done.error());
  }
  // If the state was deleted, its successor may list contenders that were found dead here. The
  // names of their FIFOs must stay, so that others can see that these contenders are dead.
  const bool counts = file_.still_linked();
  if (!counts) dead_.clear();
  // Do this before others can change the state: if the number of a stray is not assigned yet, the
  // next new contender gets that number.
  else remove_names(strays_);
  file_.unlock();
  // Interleaving 1: the process is killed here. The invited waiter notices, if it watches us or the
  // holder in our record. Otherwise another process finds that nobody has claimed the turn.
  wake(*open);
  remove_names(dead_);
  abandon();
  return counts;
}

Result<std::optional<KeyView>> KeyStore::inspect() {
  auto record = file_.peek(StateFile::Depth::waiters);
  for (int tries = 0; record && *record; ++tries) {
    LockState& s = (*record)->state;
    const Micros now = boottime_us();
    const auto recorded = s.holders;
    s.expire(now);
    const std::size_t alive = s.holders.size();
    TRY(missing, remove_dead_holders(s, now));
    // the lock may have been released just now
    if ((missing && tries < 3) || (s.holders.size() < alive && tries == 0)) {
      record = file_.peek(StateFile::Depth::waiters);
      continue;
    }
    KeyView v = view(s, key_.text(), now);
    for (const auto& h : recorded)
      if (!lists(s, h.ticket))
        v.holders.push_back(view_of_ended(h, now, (*record)->boot == boot_id()));
    if (const auto revoked = read_revoked(place()); revoked && *revoked)
      for (auto& h : v.holders) h.revoked = h.token != 0 && h.token <= **revoked;
    v.last_run = read_last_run(place());
    if (const auto note = read_beginning(place()); note && *note && (*note)->until > wall_micros())
      v.noted_start = (*note)->at;
    const auto strangers = std::ranges::count_if(s.holders, adopted);
    if (missing)
      v.notes.push_back(
          fmt::format("the FIFO of {} holder(s) was deleted from {}: whether they live cannot be "
                      "known; release --force when they are gone",
                      missing, file_.dir_path()));
    if (strangers)
      v.notes.push_back(
          fmt::format("the state file was lost: {} process(es) that held or waited block the key "
                      "until they end or go on",
                      strangers));
    return v;
  }
  if (!record) return fail(record.error());
  return inspect_without_state();
}

// There is no state. If contenders are alive, nobody knows which of them hold the key, until the
// next contender rebuilds the state.
Result<std::optional<KeyView>> KeyStore::inspect_without_state() {
  TRY(dir, file_.open_dir());
  std::size_t alive = 0;
  if (dir.dir) {
    const LifelineDir at{dir.dir.get(), 0, dir.access, file_.dir_path(), 0, 0};
    TRY_VOID(each_fifo(
        at, [&](std::uint64_t, Probe::Life life) { alive += life == Probe::Life::alive; }));
  }
  if (alive == 0) return std::nullopt;
  KeyView v;
  v.key = key_.text();
  v.waiters_known = false;
  v.unknown_reason = fmt::format(
      "the state file was lost; {} process(es) that held or waited block the key until they end or "
      "go on",
      alive);
  return v;
}

// Returns the number of holders that have no FIFO to check.
Result<std::size_t> KeyStore::remove_dead_holders(LockState& s, Micros now) const {
  std::vector<std::uint64_t> gone;
  std::size_t missing = 0;
  for (const auto& h : s.holders) {
    if (h.deadline != never) continue;
    TRY(found, probe(place(), h.ticket));
    if (found.life == Probe::Life::dead) gone.push_back(h.ticket);
    if (found.life == Probe::Life::missing) ++missing;
  }
  for (const auto& w : s.waiters) {
    TRY(found, probe(place(), w.ticket));
    if (found.life != Probe::Life::alive) gone.push_back(w.ticket);
  }
  for (const std::uint64_t ticket : gone) s.vanish(ticket, now);
  return missing;
}

Result<std::optional<LockState::Holder>> KeyStore::holder_in_force(const GrantId& id) {
  TRY(record, file_.peek(StateFile::Depth::holders));
  const Micros now = boottime_us();
  for (const auto& h : record ? record->state.holders : std::vector<LockState::Holder>{}) {
    if (!is(h, id) || h.deadline <= now || adopted(h)) continue;
    if (h.deadline != never) return h;
    TRY(found, probe(place(), h.ticket));
    if (found.life != Probe::Life::dead) return h;
  }
  return std::nullopt;
}

}  // namespace dlock::file
