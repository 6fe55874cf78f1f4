// SPDX-License-Identifier: Apache-2.0
// An in-memory backend for tests, with faults: LockState behind a mutex, one table per process,
// time is CLOCK_BOOTTIME.
//
//   fake:[NAME][?item=value&...]     every NAME is a store of its own; all backends of a process
//   that name it share it
//
// Its recipe is `lease`: time alone ends a holder, a waiter that is silent for `patience` is
// dropped. Nothing is known of locks of other processes.
//
// Faults. They belong to one Backend object (its own counters), not to the store:
//   grant_after=D         for D after the first poll every acquisition is answered Waiting (or
//   Busy) and does not queue
//   hang_after=N          the first N renewals work, the next one never returns (it sleeps in short
//   slices)
//   hang_wait=N           the first N polls of a waiter work, the next one never returns
//   hang_release=1        release never returns
//   drip=D                every call takes D before it begins, and no interrupt shortens that
//   throw_after=N         the first N renewals work, the next ones throw std::runtime_error
//   lose=acquire|renew|release|note  the first such request that succeeds is carried out, but
//   answered Errc::timed_out lost_after=N          the first N renewals work, then the lease is
//   gone and the answer is Lost renew_fails_after=N   the first N renewals work, the next ones are
//   answered Errc::unavailable, nothing is changed fail_open=denied|unavailable|cannot_create every
//   call fails with this error broken=1              every backend object has a store of its own,
//   so the lock does not exclude patience=D            the longest silence of a waiter (1s)
// Durations and numbers as on the command line; anything else is Errc::usage.
#pragma once
#include <memory>
#include "store/factory.hpp"

namespace dlock::fake {

extern const BackendFactory factory;

}  // namespace dlock::fake
