// SPDX-License-Identifier: Apache-2.0
#include "fault.hpp"
#include <algorithm>

namespace dlock::faults {

const std::vector<FaultName>& all_faults() {
  static const std::vector<FaultName> all{
      {Fault::none, "none", "none"},
      {Fault::kill_dlock, "kill-dlock", "dlock killed"},
      {Fault::kill_guard, "kill-guard", "guard killed"},
      {Fault::kill_both, "kill-both", "dlock and guard killed"},
      {Fault::stop_dlock, "stop-dlock", "dlock stopped > ttl"},
      {Fault::stop_guard, "stop-guard", "guard stopped > ttl, dlock not"},
      {Fault::stop_both, "stop-both", "dlock and guard stopped > ttl, job not"},
      {Fault::freeze_all, "freeze-all", "dlock, guard and job stopped > ttl"},
      {Fault::kill_waiter, "kill-waiter", "waiter killed"},
      {Fault::stop_waiter, "stop-waiter", "waiter stopped > ttl"},
      {Fault::kill_pair, "kill-pair", "dlock and a waiter killed"},
      {Fault::client_clock, "client-clock", "clients' wall clock ±1 h"},
      {Fault::restart, "restart", "server killed and restarted"},
      {Fault::wipe, "wipe", "server restarted empty"},
      {Fault::flush, "flush", "emptied while it runs (redlock: 2 of 5)"},
      {Fault::stop_short, "stop-short", "server stopped 0.4 s"},
      {Fault::stop_middle, "stop-middle", "server stopped 0.7 ttl"},
      {Fault::stop_long, "stop-long", "server stopped > ttl"},
      {Fault::minority, "minority", "2 of 5 stopped > ttl"},
      {Fault::cut, "cut", "network cut > ttl"},
      {Fault::lose_reply, "lose-reply", "replies lost"},
      {Fault::delay, "delay", "messages delayed"},
      {Fault::reset, "reset", "connections reset"},
      {Fault::clock_ahead, "clock-ahead", "server's wall clock +1 h"},
      {Fault::clock_back, "clock-back", "server's wall clock −1 h"},
      {Fault::minority_clock, "minority-clock", "wall clock of 2 of 5 +1 h"},
      {Fault::remove, "remove", "record removed by an operator"},
      {Fault::fail_over, "fail-over", "master killed, its replica takes over"},
      {Fault::move, "move", "slot moved to another server"},
  };
  return all;
}

namespace {

const FaultName& row_of(Fault fault) {
  return *std::find_if(all_faults().begin(), all_faults().end(),
                       [&](const FaultName& f) { return f.fault == fault; });
}

const FaultName* find_fault(std::string_view name) {
  const auto found = std::find_if(all_faults().begin(), all_faults().end(),
                                  [&](const FaultName& f) { return f.name == name; });
  return found == all_faults().end() ? nullptr : &*found;
}

bool has_midway(Fault fault) {
  switch (fault) {
    case Fault::restart:
    case Fault::wipe:
    case Fault::stop_short:
    case Fault::stop_middle:
    case Fault::stop_long:
    case Fault::minority:
    case Fault::fail_over:
    case Fault::move: return true;
    default: return false;
  }
}

}  // namespace

std::string Faults::name() const {
  std::string text{row_of(first).name};
  return midway == Fault::none ? text : text.append("+").append(row_of(midway).name);
}

std::string Faults::what() const {
  std::string text{row_of(first).what};
  return midway == Fault::none ? text : text.append(", ").append(row_of(midway).what);
}

bool Faults::loses() const {
  switch (first) {
    case Fault::restart:
    case Fault::wipe:
    case Fault::flush:
    case Fault::stop_middle:
    case Fault::stop_long:
    case Fault::cut:
    case Fault::fail_over: return true;
    default: return false;
  }
}

std::optional<Faults> parse_faults(std::string_view name) {
  const auto plus = name.find('+');
  const FaultName* const first = find_fault(name.substr(0, plus));
  if (!first) return std::nullopt;
  if (plus == name.npos) return Faults{first->fault};
  const FaultName* const midway = find_fault(name.substr(plus + 1));
  if (!midway || !to_processes(midway->fault) || !has_midway(first->fault)) return std::nullopt;
  return Faults{first->fault, midway->fault};
}

bool to_processes(Fault fault) { return Fault::kill_dlock <= fault && fault <= Fault::kill_pair; }

}  // namespace dlock::faults
