// SPDX-License-Identifier: Apache-2.0
// The options of the command that runs under a lock (run and fence). cli/ fills them in; dlock and
// its guard read them.
#pragma once
#include <csignal>
#include <string>
#include "core/clock.hpp"

namespace dlock::run {

// The process group of the job. same: dlock's group. own: a new group. automatic: `same` if
// /dev/tty can be opened, else `own`.
enum class Group { automatic, same, own };
// What dlock does with descendants when the command has ended. release: dlock releases the lock,
// and the descendants go on without it.
enum class Descendants { wait, kill, release };

// What dlock does when the lock is lost. Only `kill` keeps the promise that the job is dead before
// others hold the lock.
struct OnLost {
  enum class Do { kill, signal, exec } what = Do::kill;
  int signal = 0;
  std::string command;  // for /bin/sh -c; the guard kills it if it runs longer than the ttl
};

struct JobOptions {
  char* const* command = nullptr;  // NULL-terminated argv; [0] is looked up in PATH
  int end_signal = SIGTERM;        // --signal: sent when the job must end (lock lost, --max-run)
  OnLost on_lost;
  Duration max_run{};  // zero: no limit
  Duration min_hold{};
  int watched = -1;  // a pidfd: when that process ends, dlock acts as on TERM; -1: none
  Group group = Group::automatic;
  Descendants descendants = Descendants::wait;
};

}  // namespace dlock::run
