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
  const double until = test::boot_now() + 10 + 3 * s_.recipe.ttl;
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
  return found;
}

// The other keys go on.
std::size_t Nemesis::some() const { return (s_.keys + 1) / 2; }

void Nemesis::let_go() {
  for (std::size_t k = 0; k < s_.keys; ++k) s_.arena.resources[k].hold = false;
}

void Nemesis::wait_dead(const std::vector<Victim>& victims, double seconds) const {
  const double until = test::boot_now() + seconds;
  for (const Victim& v : victims)
    while (lives(v.job, v.guard) && test::boot_now() < until) ::usleep(1000);
}

std::size_t Nemesis::begin(pid_t pid, int key) {
  Injection i;
  i.name = fmt::format("{} {}", name_of(s_.fault), injected_.size() + 1);
  i.begin = boot_ns();
  i.pid = pid;
  i.key = key;
  i.fenced_only = !not_covered(s_.recipe, s_.fault).empty();
  injected_.push_back(std::move(i));
  return injected_.size() - 1;
}

// Of this injection and all after it.
void Nemesis::end(std::size_t first) {
  for (; first < injected_.size(); ++first) injected_[first].end = boot_ns();
}

void Nemesis::to_processes(const std::vector<Victim>& victims) {
  const std::size_t first = injected_.size();
  const bool stops = s_.fault == Fault::stop_dlock || s_.fault == Fault::stop_guard ||
                     s_.fault == Fault::stop_both || s_.fault == Fault::freeze_all;
  for (const Victim& v : victims) {
    Injection& i =
        injected_[begin(s_.fault == Fault::kill_guard ? 0 : v.dlock, static_cast<int>(v.key))];
    i.killed = s_.fault == Fault::kill_dlock || s_.fault == Fault::kill_both ||
               s_.fault == Fault::kill_pair;
    i.stopped = stops;
    switch (s_.fault) {
      case Fault::kill_dlock:
      case Fault::kill_pair: ::kill(v.dlock, SIGKILL); break;
      case Fault::kill_guard: ::kill(v.guard, SIGKILL); break;
      case Fault::kill_both: ::kill(v.guard, SIGKILL), ::kill(v.dlock, SIGKILL); break;
      default:
        if (s_.fault != Fault::stop_guard) ::kill(v.dlock, SIGSTOP);
        if (s_.fault != Fault::stop_dlock) ::kill(v.guard, SIGSTOP);
        if (s_.fault == Fault::freeze_all) ::kill(v.job, SIGSTOP);
    }
  }
  if (stops) {
    sleep(1.4 * s_.recipe.ttl);
    // The job first: the worst order in which a machine could go on.
    for (const Victim& v : victims)
      if (s_.fault == Fault::freeze_all && lives(v.job, v.guard)) ::kill(v.job, SIGCONT);
    for (const Victim& v : victims) {
      if (s_.fault != Fault::stop_dlock && lives(v.guard, v.dlock)) ::kill(v.guard, SIGCONT);
      if (s_.clients.is_running(v.key, v.dlock)) ::kill(v.dlock, SIGCONT);
    }
  }
  if (!(stops && s_.recipe.attached)) wait_dead(victims, 60);
  end(first);
}

// One waiter of each key: a dlock that runs and does not hold.
void Nemesis::to_waiters(const std::vector<Victim>& holders) {
  const std::size_t first = injected_.size();
  std::vector<std::pair<std::size_t, pid_t>> stopped;
  for (const Victim& h : holders)
    for (const pid_t pid : s_.clients.running(h.key)) {
      if (pid == h.dlock) continue;
      Injection& i = injected_[begin(pid, static_cast<int>(h.key))];
      i.killed = s_.fault != Fault::stop_waiter;
      i.stopped = !i.killed;
      ::kill(pid, i.killed ? SIGKILL : SIGSTOP);
      if (i.stopped) stopped.emplace_back(h.key, pid);
      break;
    }
  if (s_.fault != Fault::kill_pair) let_go();
  if (!stopped.empty()) sleep(1.4 * s_.recipe.ttl);
  for (const auto& [key, pid] : stopped)
    if (s_.clients.is_running(key, pid)) ::kill(pid, SIGCONT);
  end(first);
}

void Nemesis::to_network() {
  const auto proxies = s_.target.proxies();
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low));
  };
  if (s_.fault == Fault::cut) {
    const std::size_t i = begin();
    s_.target.cut();
    sleep(1.4 * s_.recipe.ttl);
    s_.target.heal();
    return end(i);
  }
  if (s_.fault == Fault::delay) {
    const std::size_t i = begin();
    for (auto* p : proxies)
      for (const auto side : {test::Proxy::to_server, test::Proxy::to_client})
        p->delay(side, std::chrono::milliseconds{between(5, 60)});
    sleep(2);
    for (auto* p : proxies)
      for (const auto side : {test::Proxy::to_server, test::Proxy::to_client}) p->delay(side, {});
    return end(i);
  }
  for (int n = 0; n < 20; ++n) {
    const std::size_t i = begin();
    test::Proxy& p = *proxies[random_() % proxies.size()];
    if (s_.fault == Fault::reset) p.cut();
    else p.lose_reply(s_.target.request_text(), n % 2 == 0);
    sleep(between(50, 250) / 1000.0);
    end(i);
  }
}

void Nemesis::to_servers() {
  const std::size_t i = begin();
  switch (s_.fault) {
    case Fault::restart:
      s_.target.restart();
      end(i);
      return sleep(1);
    case Fault::wipe:
      s_.target.restart();
      sleep(3);  // no grants before the grace is over
      break;
    case Fault::flush: s_.target.wipe(); break;
    case Fault::stop_short:
    case Fault::stop_long:
    case Fault::minority:
      s_.target.freeze();
      sleep(s_.fault == Fault::stop_short ? 0.4 : 1.4 * s_.recipe.ttl);
      s_.target.thaw();
      break;
    case Fault::client_clock:
      s_.clock.set_wall(std::chrono::hours{injected_.size() % 2 == 0 ? 1 : -1});
      sleep(0.5);
      break;
    default:
      s_.target.step_clock(std::chrono::hours{s_.fault == Fault::clock_back ? -1 : 1});
      sleep(1.2 * s_.recipe.ttl);
  }
  end(i);
}

void Nemesis::round() {
  const std::size_t before = injected_.size();
  switch (s_.fault) {
    case Fault::none: return sleep(0.2);
    case Fault::kill_dlock:
    case Fault::kill_guard:
    case Fault::kill_both:
    case Fault::stop_dlock:
    case Fault::stop_guard:
    case Fault::stop_both:
    case Fault::freeze_all: to_processes(hold(some())); break;
    case Fault::kill_waiter:
    case Fault::stop_waiter: to_waiters(hold(some())); break;
    case Fault::kill_pair: {
      const auto holders = hold(some());
      to_waiters(holders);
      to_processes(holders);
      break;
    }
    case Fault::cut:
    case Fault::lose_reply:
    case Fault::delay:
    case Fault::reset:
      hold(1);
      to_network();
      break;
    case Fault::remove: {
      const auto victims = hold(some());
      for (const Victim& v : victims) {
        begin(0, static_cast<int>(v.key));
        s_.remove(v.key, v.slot->token);
      }
      wait_dead(victims, 60);
      end(before);
      break;
    }
    default: {
      const auto victims = hold(1);
      to_servers();
      if (!not_covered(s_.recipe, s_.fault).empty()) wait_dead(victims, 60);
    }
  }
  let_go();
  sleep(1);
  // Where exclusion is not promised, it is not until the last job without the lock is dead.
  if (!not_covered(s_.recipe, s_.fault).empty()) end(before);
}

}  // namespace dlock::faults
