// SPDX-License-Identifier: Apache-2.0
// The command that runs under a lock, as the command line says it (run and fence).
#pragma once
#include <csignal>
#include <string>
#include "core/clock.hpp"

namespace dlock::run {

// automatic: dlock's own group exactly when /dev/tty opens
enum class Group { automatic, same, own };
// What becomes of descendants once the command itself has ended. release: the lock is given back,
// and they go on without it.
enum class Descendants { wait, kill, release };

// The reaction of dlock when the lock is lost. Any but `kill` gives up the promise that the job is
// dead before others hold the lock.
struct OnLost {
  enum class Do { kill, signal, exec } what = Do::kill;
  int signal = 0;
  std::string command;  // for /bin/sh -c; killed when it runs longer than the ttl
};

struct JobOptions {
  char* const* command = nullptr;  // NULL-terminated argv; [0] is looked up in PATH
  int end_signal = SIGTERM;        // --signal: the signal of a request to end (lost, --max-run)
  OnLost on_lost;
  Duration max_run{};  // zero: no limit
  Duration min_hold{};
  int watched = -1;  // a pidfd: the end of that process is to dlock as a TERM; -1: none
  Group group = Group::automatic;
  Descendants descendants = Descendants::wait;
};

}  // namespace dlock::run
