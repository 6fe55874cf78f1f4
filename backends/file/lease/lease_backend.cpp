// SPDX-License-Identifier: Apache-2.0
#include "file/lease/lease_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "file/lease/note_file.hpp"

namespace dlock::file {
namespace {

// Returns the lease as stored, because a caller that renews by handle knows only the owner.
Lease lease_of(const Lease& wanted, const LockState::Holder& h, Deadline deadline, bool attached) {
  return {wanted.key, wanted.owner, h.mode, h.token, h.slot, deadline, attached};
}

}  // namespace

KeyStore& LeaseBackend::store(const Key& key) {
  auto& slot = stores_[key.text()];
  if (!slot) slot = std::make_unique<KeyStore>(root_, key, prefix_ + store_name(key), tuning_);
  return *slot;
}

LeaseBackend::AttachedHold* LeaseBackend::held(const Key& key, const Owner& owner) {
  const auto found = held_.find({key.text(), owner});
  return found == held_.end() ? nullptr : &found->second;
}

Result<KeyStore::Begun> LeaseBackend::begin(KeyStore& key, Make make, int interrupt_fd,
                                            Duration patience) {
  ++counters_.requests;
  return key.begin(make, std::min(patience, settings_.op_timeout), interrupt_fd);
}

// ---- renew -------------------------------------------------------------------------------------
// A process that found no state may have listed our lifeline as an unknown holder. If so, replaces
// that unknown holder with our holder. Nobody else can have been granted the key meanwhile, because
// our lifeline blocked it.
bool LeaseBackend::register_again(KeyStore& key, AttachedHold& held) {
  if (!key.remove_adopted(held.life)) return false;
  LockState& s = key.state();
  s.fence = std::max(s.fence, held.record.token);
  s.holders.push_back(held.record);
  return true;
}

Result<Renewal> LeaseBackend::keep_attached(const Lease& lease, AttachedHold& held) {
  held.life.drain();  // Do this first, so that the next call reads later messages.
  const Renewal kept = Kept{lease_of(lease, held.record, no_deadline, true)};
  KeyStore& key = store(lease.key);
  TRY(record, key.file().peek(StateFile::Depth::holders));
  const auto mine = [&](const LockState::Holder& h) {
    return h.owner == lease.owner && h.deadline == never;
  };
  if (record && std::ranges::any_of(record->state.holders, mine) && held.life.is_at(key.place())) {
    TRY(revoked, is_revoked(key, held.record.token));
    held.revoked = revoked;
    return Kept{lease_of(lease, held.record, no_deadline, true), revoked};
  }

  TRY(begun, begin(key, Make::state));
  if (begun == KeyStore::Begun::absent)
    return Lost{fmt::format("its directory {} was deleted", printable(key.file().dir_path()))};
  const Change change(key);
  if (!held.life.is_at(key.place()))
    return Lost{fmt::format("its FIFO was deleted from {}", printable(key.file().dir_path()))};
  if (key.state().holder(lease.owner, key.now())) return kept;
  if (!register_again(key, held))
    return Lost{
        "its record was removed (release --force, or an older copy of the state was restored)"};
  TRY(done, key.finish());
  if (!done) return keep_attached(lease, held);  // the state file was deleted meanwhile
  return kept;
}

// Only people read how a run ended, so a failure to write it does not matter: the lock is ours.
void LeaseBackend::note_end(const Lease& lease, AttachedHold& held) {
  held.record.meta = with_end(held.record.meta, lease.ended);
  KeyStore& key = store(lease.key);
  const auto begun = begin(key, Make::nothing);
  if (!begun || *begun != KeyStore::Begun::locked) return;
  const Change change(key);
  key.state().note_end(lease.owner, lease.ended);
  (void)key.finish();
}

Result<Renewal> LeaseBackend::keep_lease(const Lease& lease, Duration ttl) {
  if (ttl <= Duration::zero()) return fail(Errc::usage, "--ttl 0: use release");
  KeyStore& key = store(lease.key);
  const Deadline sent = Clock::now();
  TRY(begun, begin(key, Make::nothing));
  if (begun == KeyStore::Begun::absent)
    return Lost{fmt::format("{} does not exist", printable(key.file().path()))};
  const Change change(key);
  const LockState::Holder* h = key.state().holder(lease.owner, key.now());
  if (!h) return Lost{"the lease has ended or was released"};
  // another process holds the lock, without a deadline
  if (h->deadline == never) return Kept{lease_of(lease, *h, no_deadline, true)};
  if (after(key.now(), ttl.count()) < h->deadline) key.wake_head();
  const Lease kept = lease_of(lease, *h, lease_end(sent, ttl), false);
  TRY(revoked, is_revoked(key, h->token));
  key.state().renew(lease.owner, ttl.count(), key.now());
  key.state().note_end(lease.owner, lease.ended);
  TRY(done, key.finish());
  if (!done) return keep_lease(lease, ttl);  // the state file was deleted meanwhile
  return Kept{kept, revoked};
}

Result<Renewal> LeaseBackend::renew(const Lease& lease, Duration ttl) {
  AttachedHold* h = held(lease.key, lease.owner);
  if (!h) return keep_lease(lease, ttl);
  auto answer = keep_attached(lease, *h);
  if (!lease.ended.empty() && answer && std::holds_alternative<Kept>(*answer)) note_end(lease, *h);
  return answer;
}

Result<Renewal> LeaseBackend::detach(const Lease& lease, Duration ttl, std::optional<RunEnd> end) {
  AttachedHold* mine = held(lease.key, lease.owner);
  if (!mine) return keep_lease(lease, ttl);
  if (ttl <= Duration::zero())
    return fail(Errc::usage, "a lock that no process holds must end some time");
  KeyStore& key = store(lease.key);
  const Deadline sent = Clock::now();
  TRY(begun, begin(key, Make::state));
  if (begun == KeyStore::Begun::absent)
    return Lost{fmt::format("its directory {} was deleted", printable(key.file().dir_path()))};
  const Change change(key);
  register_again(key, *mine);
  if (const auto* h = key.state().holder(lease.owner, key.now())) note_run(key, *h, end);
  if (!key.state().renew(lease.owner, ttl.count(), key.now()))
    return Lost{"its record was removed"};
  key.wake_head();  // the first waiter watches our lifeline, which ends now
  TRY(done, key.finish());
  if (!done) return detach(lease, ttl, end);  // the state file was deleted meanwhile
  const Lease kept = lease_of(lease, mine->record, lease_end(sent, ttl), false);
  mine->life.drop(key.place());
  held_.erase({lease.key.text(), lease.owner});
  return Kept{kept};
}

// ---- release -----------------------------------------------------------------------------------
Result<Released> LeaseBackend::release(const Lease& lease, std::optional<RunEnd> end) {
  KeyStore& key = store(lease.key);
  AttachedHold* mine = held(lease.key, lease.owner);
  const auto forget = [&](bool with_name) {
    if (!mine) return;
    with_name ? mine->life.drop(key.place()) : mine->life.drop();
    held_.erase({lease.key.text(), lease.owner});
  };
  TRY(begun, begin(key, Make::nothing));
  // Nobody else can have been granted the key while the name of our lifeline existed.
  if (begun == KeyStore::Begun::absent) {
    const bool was = mine && mine->life.linked();
    forget(true);
    return was ? Released::yes : Released::was_not_held;
  }
  const Change change(key);
  const LockState::Holder* h = key.state().holder(lease.owner, key.now());
  if (h && h->deadline == never && !mine) key.alarm(h->ticket);  // wake the process that holds it
  bool was = mine && mine->life.is_at(key.place()) && key.remove_adopted(mine->life);
  if (h && mine && mine->revoked && key.state().holders.size() == 1) forget_revoked(key.place());
  if (h) note_run(key, *h, end);
  was |= key.state().release(lease.owner, key.now());
  const auto done = key.finish();
  // If the state file was deleted meanwhile, release again. If our own process holds the lock, that
  // is not necessary: the end of our lifeline ends the lock.
  if (done && !*done && !mine) return release(lease, end);
  if (done) {
    forget(true);
    return was ? Released::yes : Released::was_not_held;
  }
  if (!mine) return fail(done.error());
  // Nothing could be written (a full disk). The end of our lifeline frees the key anyway, as if the
  // holder had vanished. The name of the lifeline stays, because a missing name proves nothing.
  const Duration delay{mine->record.delay};
  forget(false);
  if (delay == Duration::zero()) return was ? Released::yes : Released::was_not_held;
  return fail(done.error().code,
              "{}; the key is free all the same, but only after its lock-delay of {}",
              done.error().message, format_duration(delay));
}

Result<Released> LeaseBackend::force_release(const Key& wanted, std::optional<FencingToken> token) {
  if (token == FencingToken{0}) return Released::was_not_held;
  KeyStore& key = store(wanted);
  TRY(begun, begin(key, Make::nothing));
  if (begun == KeyStore::Begun::absent) return Released::was_not_held;
  const Change change(key);
  for (const auto& h : key.state().holders)
    if (h.deadline == never && (!token || h.token == *token)) key.alarm(h.ticket);
  key.state().expire(key.now());  // a lease that has ended is not held
  const bool was = key.state().force_release(token.value_or(0)) > 0;
  TRY(done, key.finish());
  if (!done) return force_release(wanted, token);
  return was ? Released::yes : Released::was_not_held;
}

// ---- reading ------------------------------------------------------------------------------------
Result<Validity> LeaseBackend::check(const Key& key, const GrantId& id) {
  TRY(h, store(key).holder_in_force(id));
  return h ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> LeaseBackend::inspect(const Key& key) {
  return store(key).inspect();
}

Result<std::vector<std::string>> LeaseBackend::names() {
  TRY(names, root_.names());
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix_); });
  for (std::string& name : names) name.erase(0, prefix_.size());
  return std::move(names);
}

// An unreadable record must not hide the other keys.
Result<std::optional<KeyView>> LeaseBackend::inspect_name(const std::string& name) {
  const auto unknown = [](const std::string& key_or_name, const Error& why) {
    KeyView v;
    v.key = key_or_name;
    v.waiters_known = false;
    v.unknown_reason = why.message;
    return std::optional{std::move(v)};
  };
  const std::string stored = prefix_ + name;
  auto key = key_from_store_name(name);
  if (!key) {  // the name is shortened, so the record must supply the key
    const auto record = StateFile(root_, stored).peek(StateFile::Depth::holders);
    if (!record) return unknown(stored, record.error());
    if (*record) key = Key::parse((*record)->key);
    if (!*record || !key || store_name(*key) != name) return std::nullopt;
  }
  auto view = KeyStore(root_, *key, stored, tuning_).inspect();
  return view ? std::move(*view) : unknown(key->text(), view.error());
}

}  // namespace dlock::file
