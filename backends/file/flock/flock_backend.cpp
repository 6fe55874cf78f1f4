// SPDX-License-Identifier: Apache-2.0
#include "file/flock/flock_backend.hpp"
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <utility>
#include "core/text.hpp"
#include "file/lock_table.hpp"
#include "file/sys_error.hpp"
#include "store/key_view.hpp"

namespace dlock::file {
namespace {

constexpr std::string_view records_name = ".dlock", records_of_a_user = ".dlock-";
constexpr std::string_view was_told =
    "the holder was asked to release (release --force), and the lock ends with its job";
constexpr std::string_view of_a_stranger =
    "another program locked the file, and the lock ends when that program unlocks it or ends";
constexpr std::string_view of_another_user =
    "another program, or the dlock of another user, locked the file, and the lock ends when that "
    "process unlocks it or ends";

// Fills in the host and the user of a process that may be the dlock of another user.
void describe(Identity& who) {
  struct stat process {};
  who.host = Identity::mine({}).host;
  if (::stat(fmt::format("/proc/{}", who.pid).c_str(), &process) == 0)
    who.user = std::to_string(process.st_uid);
}

}  // namespace

Result<std::string> FlockBackend::name_of(const Key& key) const {
  const std::string name = prefix_ + key.text();
  if (name.find('/') != name.npos || name == "." || name == ".." || name == records_name ||
      name.starts_with(records_of_a_user) || name.size() > 200)
    return fail(Errc::usage,
                "--key {}: recipe flock takes it as the name of a file, so it has no "
                "'/', is none of '.', '..', '{}', '{}UID', and is at most 200 bytes "
                "long",
                printable(name), records_name, records_of_a_user);
  return name;
}

FlockRecord& FlockBackend::record(const std::string& name) {
  auto& slot = records_[name];
  if (!slot)
    slot = std::make_unique<FlockRecord>(where_, store_name(*Key::parse(name)), name,
                                         settings_.op_timeout);
  return *slot;
}

// The lock itself needs no record. In a directory that all users may write to, any stranger can
// prevent records. There dlock also grants a lock if it may not write the record. The token then
// comes from the clock, and check fails because of the record. (check_outer() says what nested runs
// do.)
Result<FlockRecord::Entry> FlockBackend::enter(const std::string& name, const Request& r,
                                               int locked) {
  auto entry = record(name).enter(r, locked);
  if (entry || !of_all_users_ || entry.error().code != Errc::denied) return entry;
  warnings_.push_back(
      fmt::format("{}; until that is corrected, check and release --force do not know this lock",
                  entry.error().message));
  const auto token = static_cast<FencingToken>(std::max<std::int64_t>(wall_micros(), 1));
  TRY_VOID(set_mark(locked, token, where_.path() + "/" + name));  // for nested runs
  return FlockRecord::Entry{
      {r.owner, r.mode, 0, token, 0, boottime_us(), never, 0, r.identity.encode()}, {}};
}

FlockBackend::HeldFile* FlockBackend::held(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

Result<Renewal> FlockBackend::renew(const Lease& lease, Duration) {
  TRY(name, name_of(lease.key));
  Lease kept = lease;
  kept.attached = true;
  kept.deadline = no_deadline;
  HeldFile* mine = held(lease.key, lease.owner);
  if (!mine) {
    TRY(h, in_force(lease.key, lease.owner));
    if (!h) return Lost{"there is no lock with this handle"};
    kept.mode = h->mode;
    kept.token = h->token;
    return Kept{kept};
  }
  mine->entry.mailbox.drain();  // first, so that the next call reads later messages
  TRY(here, in_place(where_, name, mine->file));
  if (!here)
    return Lost{fmt::format("{}/{} was deleted or replaced, so others lock another file",
                            where_.path(), name)};
  kept.mode = mine->entry.holder.mode;
  kept.token = mine->entry.holder.token;
  if (!mine->entry.mailbox) return Kept{kept};
  TRY(state, record(name).peek());
  if (!state) {  // the record is gone, but the lock is ours
    ++counters_.requests;
    TRY_VOID(record(name).enter_again(mine->entry.holder));
    return Kept{kept};
  }
  const auto same = [&](const LockState::Holder& h) {
    return h.owner == lease.owner && !evicted(h);
  };
  if (std::ranges::none_of(state->holders, same))
    return Lost{"a release was forced (release --force)"};
  if (!lease.ended.empty()) {
    mine->entry.holder.meta = with_end(mine->entry.holder.meta, lease.ended);
    ++counters_.requests;
    (void)record(name).note_end(lease.owner, lease.ended);  // may fail: only people read it
  }
  return Kept{kept};
}

Result<Renewal> FlockBackend::detach(const Lease&, Duration, std::optional<RunEnd>) {
  return fail(Errc::usage,
              "recipe flock: the lock ends with the process that has it, so it cannot be detached; "
              "use recipe lease");
}

Result<Released> FlockBackend::release(const Lease& lease, std::optional<RunEnd>) {
  TRY(name, name_of(lease.key));
  HeldFile* mine = held(lease.key, lease.owner);
  if (!mine) {
    TRY(h, in_force(lease.key, lease.owner));
    if (!h) return Released::was_not_held;
    return fail(
        Errc::usage,

        "recipe flock: only the process that has the lock can release it (process {} on {})",
        Identity::decode(h->meta).pid, Identity::decode(h->meta).host);
  }
  ++counters_.requests;
  const auto left = mine->entry.mailbox ? record(name).leave(lease.owner, mine->entry.mailbox)
                                        : Result<bool>{true};
  // Clear the mark and unlock, whatever happened to the record. Without the mark the record is
  // void, and others may be waiting for the lock. Unlock explicitly, because the guard has a
  // duplicate descriptor.
  clear_mark(mine->file.fd.get(), mine->entry.holder.token);
  ::flock(mine->file.fd.get(), LOCK_UN);
  held_.erase({lease.key.text(), lease.owner});
  return !left || *left ? Released::yes : Released::was_not_held;
}

Result<Released> FlockBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  TRY(name, name_of(key));
  TRY(file, open_flock_file(where_, name, false));
  if (!file.fd) return Released::was_not_held;
  ++counters_.requests;
  TRY(gone, record(name).evict(token, file.fd.get()));
  if (gone.now) return Released::yes;
  const auto strangers = flock_entries(file.device, file.inode).value_or(std::vector<FlockEntry>{});
  if (token || gone.before || strangers.empty()) return Released::was_not_held;
  return fail(Errc::usage, "{}/{}: {}", printable(where_.path()), printable(name),
              of_all_users_ ? of_another_user : of_a_stranger);
}

// ---- reading ------------------------------------------------------------------------------------
Result<std::optional<LockState::Holder>> FlockBackend::in_force(const Key& key, const GrantId& id) {
  TRY(name, name_of(key));
  TRY(file, open_flock_file(where_, name, false));
  TRY(state, record(name).peek());
  if (file.fd && state)
    for (const auto& h : state->holders)
      if (is(h, id) && !evicted(h) && marked(file.fd.get(), h.token)) return h;
  return std::nullopt;
}

Result<Validity> FlockBackend::check(const Key& key, const GrantId& id) {
  TRY(h, in_force(key, id));
  return h ? Validity::valid : Validity::stale;
}

// The grant may be recorded by another user, or not at all. In both cases the kernel's table must
// show that the outer dlock has locked this file, because anybody may have written the environment,
// and anybody may have set the mark. If the table does not show the lock, but the mark is set, the
// run is refused, because it might wait for its own ancestor.
Result<Validity> FlockBackend::check_outer(const Lease& outer, pid_t dlock) {
  TRY(name, name_of(outer.key));
  TRY(file, open_flock_file(where_, name, false));
  if (!file.fd) return Validity::stale;
  const bool is_marked = marked(file.fd.get(), outer.token);
  const auto state = record(name).peek();
  if (state && *state)
    for (const auto& h : (*state)->holders)
      if (h.owner == outer.owner)
        return is_marked && !evicted(h) ? Validity::valid : Validity::stale;
  const auto locks = flock_entries(file.device, file.inode).value_or(std::vector<FlockEntry>{});
  for (const FlockEntry& e : locks)
    if (e.pid == dlock) return Validity::valid;
  if (!state) return fail(state.error());
  if (!is_marked) return Validity::stale;
  return fail(
      Errc::denied,
      "{}/{}: DLOCK_GRANTS says that the dlock around this one has locked it, but neither a record "
      "of this user nor /proc/locks confirms this (--no-reentrant makes it an ordinary contender)",
      printable(where_.path()), printable(name));
}

Result<std::optional<KeyView>> FlockBackend::inspect(const Key& key) {
  TRY(name, name_of(key));
  TRY(file, open_flock_file(where_, name, false));
  TRY(state, record(name).peek());
  LockState s = state.value_or(LockState{});
  std::erase_if(s.holders,
                [&](const auto& h) { return !file.fd || !marked(file.fd.get(), h.token); });
  const bool exclusive =
      std::ranges::any_of(s.holders, [](const auto& h) { return h.mode == Mode::exclusive; });
  // Read the kernel's table of locks only if needed: each waiter calls inspect(), and the table
  // grows with the square of the number of waiters.
  auto listed = file.fd && !exclusive ? flock_entries(file.device, file.inode)
                                      : std::optional{std::vector<FlockEntry>{}};
  auto locks = listed.value_or(std::vector<FlockEntry>{});
  if (!state && listed && locks.empty()) return std::nullopt;
  KeyView v = view(s, key.text(), boottime_us());
  for (HolderView& h : v.holders)
    if (std::exchange(h.slot, 0) != 0) h.stays_because = was_told;  // evict() set the slot
  if (std::ranges::any_of(s.holders, evicted))
    v.notes.push_back("a holder was asked to release (release --force)");
  v.waiters_known = false;
  if (!listed)
    v.unknown_reason =
        "/proc/locks shows no locks here, so whether another program has this one is unknown";
  // Each of dlock's own locks is also a line of the kernel's table. The line has the pid of the
  // holder if the holder's process is in this pid namespace. Remove these lines: the rest are locks
  // of others.
  for (const HolderView& ours : v.holders) {
    auto line = std::ranges::find(locks, ours.who.pid, &FlockEntry::pid);
    if (line == locks.end()) continue;
    locks.erase(line);
  }
  for (const FlockEntry& e : locks) {
    HolderView stranger;
    stranger.mode = e.exclusive ? Mode::exclusive : Mode::shared;
    stranger.attached = true;
    stranger.who.pid = e.pid;
    stranger.stays_because = of_all_users_ ? of_another_user : of_a_stranger;
    if (of_all_users_) describe(stranger.who);
    v.holders.push_back(std::move(stranger));
  }
  if (!locks.empty())
    v.notes.push_back(fmt::format(
        "locked by a process that is not dlock's{}; its id is that of the process that took the "
        "lock",
        of_all_users_ ? ", or is that of another user" : ""));
  v.notes.push_back(
      "recipe flock knows no waiters, and cannot see others who hold it in another pid namespace");
  return v;
}

// Finds only files that dlock has locked, because only their names are in the records.
Result<std::vector<std::string>> FlockBackend::names() {
  TRY(stored, where_.names());
  std::vector<std::string> names;
  for (const std::string& each : stored) {
    const auto record = StateFile(where_, each).peek(StateFile::Depth::holders);
    if (!record || !*record || !(*record)->key.starts_with(prefix_)) continue;
    const auto key = Key::parse(std::string_view{(*record)->key}.substr(prefix_.size()));
    if (key && name_of(*key)) names.push_back(key->text());
  }
  return names;
}

// Removes the locked file, too, because a caller erases only keys whose files it has made.
Result<void> FlockBackend::erase(const Key& key) {
  TRY(name, name_of(key));
  TRY(root, where_.open_root(false));
  if (root.dir && ::unlinkat(root.dir.get(), name.c_str(), 0) && errno != ENOENT)
    return fail_errno("remove", where_.path() + "/" + name, errno);
  return where_.remove_key(store_name(*Key::parse(name)));
}

}  // namespace dlock::file
