// SPDX-License-Identifier: Apache-2.0
#include "nemesis.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include "support/process.hpp"

namespace dlock::faults {
namespace {

pid_t parent_of(pid_t pid) {
  const std::string stat = test::read_file(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(')');  // "pid (name) state parent ..."
  if (name_end == stat.npos || name_end + 4 >= stat.size()) return 0;
  return std::atoi(stat.c_str() + name_end + 4);
}

bool lives(pid_t pid, pid_t parent) { return parent_of(pid) == parent; }

}  // namespace

Nemesis::Nemesis(Subject subject, unsigned seed) : s_(std::move(subject)), random_(seed) {}

void Nemesis::sleep(double seconds) const { ::usleep(static_cast<useconds_t>(seconds * 1e6)); }

// A job of each key that stays; a key for which none comes is left out.
std::vector<Nemesis::Victim> Nemesis::hold(std::size_t keys) {
  for (std::size_t k = 0; k < keys; ++k) s_.arena.resources[k].hold = true;
  std::vector<Victim> found;
  // A store that was installed so grants nothing in its first minute.
  const double until = test::boot_now() + (s_.queue ? 180 : 10 + 3 * s_.ttl);
  while (found.size() < keys && test::boot_now() < until) {
    const std::uint32_t used = s_.arena.slots_used;
    for (std::uint32_t i = used; i-- > 0 && used - i < 256;) {
      const Slot& slot = s_.arena.slots[i];
      const auto k = static_cast<std::size_t>(slot.key);
      if (!slot.holds ||
          std::any_of(found.begin(), found.end(), [&](const Victim& v) { return v.key == k; }))
        continue;
      const pid_t job = slot.pid, guard = slot.guard;
      const pid_t dlock = lives(job, guard) ? parent_of(guard) : 0;
      if (dlock != 0 && k < keys && s_.clients.is_running(k, dlock))
        found.push_back({k, &slot, dlock, guard, job});
    }
    ::usleep(1000);
  }
  missed_ += keys - found.size();
  if (s_.queue)
    for (const Victim& v : found) missed_ += !s_.clients.queued(v.key, until - test::boot_now());
  return found;
}

// The other keys go on.
std::size_t Nemesis::harmed() const {
  const Fault f = s_.faults.first;
  return s_.queue || to_processes(f) || f == Fault::remove ? (s_.keys + 1) / 2 : 1;
}

void Nemesis::longer_than_a_lease() const { sleep(1.5 * s_.ttl); }

bool Nemesis::is_covered() const { return not_covered(s_.recipe, s_.faults).empty(); }

void Nemesis::let_go() {
  for (std::size_t k = 0; k < s_.keys; ++k) s_.arena.resources[k].hold = false;
}

void Nemesis::wait_dead(const std::vector<Victim>& victims, double seconds) const {
  const double until = test::boot_now() + seconds;
  for (const Victim& v : victims)
    while (lives(v.job, v.guard) && test::boot_now() < until) ::usleep(1000);
}

std::size_t Nemesis::begin(Fault fault, pid_t pid, int key) {
  Injection i;
  i.name = fmt::format("{} {}", Faults{fault}.name(), injected_.size() + 1);
  i.begin = boot_ns();
  i.pid = pid;
  i.key = key;
  i.fenced_only = !is_covered();
  injected_.push_back(std::move(i));
  return injected_.size() - 1;
}

// Of this injection and all after it.
void Nemesis::end(std::size_t first) {
  for (; first < injected_.size(); ++first) injected_[first].end = boot_ns();
}

void Nemesis::hit(Fault fault, const std::vector<Victim>& victims) {
  const bool pair = fault == Fault::kill_pair;
  if (pair || fault == Fault::kill_waiter || fault == Fault::stop_waiter)
    to_waiters(fault, victims);
  if (pair || fault < Fault::kill_waiter) to_holders(fault, victims);
}

void Nemesis::to_holders(Fault fault, const std::vector<Victim>& victims) {
  const std::size_t first = injected_.size();
  const bool stops = fault == Fault::stop_dlock || fault == Fault::stop_guard ||
                     fault == Fault::stop_both || fault == Fault::freeze_all;
  for (const Victim& v : victims) {
    Injection& i =
        injected_[begin(fault, fault == Fault::kill_guard ? 0 : v.dlock, static_cast<int>(v.key))];
    i.killed = fault == Fault::kill_dlock || fault == Fault::kill_both || fault == Fault::kill_pair;
    i.stopped = stops;
    i.holder = true;
    switch (fault) {
      case Fault::kill_dlock:
      case Fault::kill_pair: ::kill(v.dlock, SIGKILL); break;
      case Fault::kill_guard: ::kill(v.guard, SIGKILL); break;
      case Fault::kill_both: ::kill(v.guard, SIGKILL), ::kill(v.dlock, SIGKILL); break;
      default:
        if (fault != Fault::stop_guard) ::kill(v.dlock, SIGSTOP);
        if (fault != Fault::stop_dlock) ::kill(v.guard, SIGSTOP);
        if (fault == Fault::freeze_all) ::kill(v.job, SIGSTOP);
    }
  }
  if (stops) {
    longer_than_a_lease();
    // The job first: the worst order in which a machine could go on.
    for (const Victim& v : victims)
      if (fault == Fault::freeze_all && lives(v.job, v.guard)) ::kill(v.job, SIGCONT);
    for (const Victim& v : victims) {
      if (fault != Fault::stop_dlock && lives(v.guard, v.dlock)) ::kill(v.guard, SIGCONT);
      if (s_.clients.is_running(v.key, v.dlock)) ::kill(v.dlock, SIGCONT);
    }
  }
  // A dlock goes on if only its guard was stopped, or if its lock ends with a descriptor.
  if (fault != Fault::stop_guard && !(stops && s_.recipe.attached)) wait_dead(victims, 60);
  end(first);
}

// One waiter of each key: a dlock that runs and does not hold.
void Nemesis::to_waiters(Fault fault, const std::vector<Victim>& holders) {
  const std::size_t first = injected_.size();
  std::vector<std::pair<std::size_t, pid_t>> stopped;
  for (const Victim& h : holders)
    for (const pid_t pid : s_.clients.running(h.key)) {
      if (pid == h.dlock) continue;
      Injection& i = injected_[begin(fault, pid, static_cast<int>(h.key))];
      i.killed = fault != Fault::stop_waiter;
      i.stopped = !i.killed;
      ::kill(pid, i.killed ? SIGKILL : SIGSTOP);
      if (i.stopped) stopped.emplace_back(h.key, pid);
      break;
    }
  if (fault != Fault::kill_pair && !s_.queue) let_go();
  if (!stopped.empty()) longer_than_a_lease();
  for (const auto& [key, pid] : stopped)
    if (s_.clients.is_running(key, pid)) ::kill(pid, SIGCONT);
  end(first);
}

void Nemesis::to_network() {
  const Fault fault = s_.faults.first;
  const auto proxies = s_.target.proxies();
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low));
  };
  if (fault == Fault::cut) {
    const std::size_t i = begin(fault);
    s_.target.cut();
    longer_than_a_lease();
    s_.target.heal();
    return end(i);
  }
  if (fault == Fault::delay) {
    const std::size_t i = begin(fault);
    for (auto* p : proxies)
      for (const auto side : {test::Proxy::to_server, test::Proxy::to_client})
        p->delay(side, std::chrono::milliseconds{between(5, 60)});
    sleep(2);
    for (auto* p : proxies)
      for (const auto side : {test::Proxy::to_server, test::Proxy::to_client}) p->delay(side, {});
    return end(i);
  }
  const std::size_t first = injected_.size();
  for (int n = 0; n < 20; ++n) {
    begin(fault);
    test::Proxy& p = *proxies[random_() % proxies.size()];
    if (fault == Fault::reset) p.cut();
    else p.lose_reply(s_.target.request_text(), n % 2 == 0);
    sleep(between(50, 250) / 1000.0);
  }
  // A reply that is lost quietly is missed only after the op-timeout, a part of the ttl.
  for (auto* p : proxies) p->keep_replies();
  longer_than_a_lease();
  end(first);
}

void Nemesis::to_servers(const std::vector<Victim>& victims) {
  const Fault fault = s_.faults.first;
  const std::size_t i = begin(fault);
  const auto midway = [&] {
    if (s_.faults.midway != Fault::none) hit(s_.faults.midway, victims);
  };
  switch (fault) {
    case Fault::restart:
      midway();
      s_.target.restart();
      end(i);
      return sleep(1);
    case Fault::wipe:
      midway();
      s_.target.restart();
      sleep(3);  // no grants before the grace is over
      break;
    case Fault::fail_over:
      midway();
      s_.target.fail_over();
      break;
    case Fault::move:
      for (const Victim& v : victims)
        s_.target.move(fmt::format("fault-{}", v.key), [&] {
          if (s_.faults.midway != Fault::none) hit(s_.faults.midway, {v});
          longer_than_a_lease();
        });
      break;
    case Fault::flush: s_.target.wipe(); break;
    case Fault::stop_short:
    case Fault::stop_middle:
    case Fault::stop_long:
    case Fault::minority:
      s_.target.freeze();
      midway();
      if (fault == Fault::stop_short) sleep(0.4);
      else if (fault == Fault::stop_middle) sleep(0.7 * s_.ttl);
      else longer_than_a_lease();
      s_.target.thaw();
      break;
    case Fault::client_clock:
      s_.clock.set_wall(std::chrono::hours{injected_.size() % 2 == 0 ? 1 : -1});
      sleep(0.5);
      break;
    default:
      s_.target.step_clock(std::chrono::hours{fault == Fault::clock_back ? -1 : 1});
      sleep(1.2 * s_.ttl);
  }
  end(i);
}

void Nemesis::to_records(const std::vector<Victim>& victims) {
  const std::size_t first = injected_.size();
  for (const Victim& v : victims) {
    begin(Fault::remove, 0, static_cast<int>(v.key));
    s_.remove(v.key, v.slot->token);
  }
  wait_dead(victims, 60);
  end(first);
}

void Nemesis::round() {
  const Fault fault = s_.faults.first;
  const std::size_t before = injected_.size();
  if (fault == Fault::none && !s_.queue) return sleep(0.2);
  const auto victims = hold(harmed());
  if (to_processes(fault)) {
    hit(fault, victims);
  } else {
    switch (fault) {
      case Fault::none: break;
      case Fault::cut:
      case Fault::lose_reply:
      case Fault::delay:
      case Fault::reset: to_network(); break;
      case Fault::remove: to_records(victims); break;
      default:
        to_servers(victims);
        if (is_covered()) break;
        wait_dead(victims, 1.5 * s_.ttl);
        let_go();  // of 5 masters, 3 may still have the lease
        wait_dead(victims, 60);
    }
  }
  if (s_.queue) sleep(3 * s_.ttl);
  let_go();
  if (!s_.queue) sleep(1);
  // Where exclusion is not promised, it is not until the last job without the lock is dead.
  if (!is_covered()) end(before);
}

}  // namespace dlock::faults
