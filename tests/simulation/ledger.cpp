// SPDX-License-Identifier: Apache-2.0
#include "simulation/ledger.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace dlock::simulation {
namespace {

bool together(Mode a, Mode b) noexcept { return a != Mode::exclusive && b != Mode::exclusive; }

}  // namespace

void Ledger::granted(FencingToken token, Mode mode, unsigned limit, Nanos ends) {
  ++grants;
  if (token <= newest_ && (mode == Mode::exclusive || !tokens_of_coming))
    world_.broken(fmt::format("I4: token {} is granted after {}", token, newest_));
  newest_ = std::max(newest_, token);
  for (const auto& [other, delay] : delays_)
    if (world_.now() < delay.until && !together(mode, delay.mode))
      world_.broken(
          fmt::format("I1: token {} is granted {:.3f} s before the lock-delay of token {} is over",
                      token, static_cast<double>(delay.until - world_.now()) / 1e9, other));
  std::size_t running = 0;
  for (const auto& [other, grant] : all_) {
    if (!grant.job) continue;
    running += grant.excused ? 0 : 1;
    if (together(mode, grant.mode)) continue;
    if (grant.excused) ++overlaps_excused;
    else
      world_.broken(fmt::format("I1: token {} is granted while the job of {} (token {}) is alive",
                                token, grant.who, other));
  }
  if (mode == Mode::permit && running >= limit)
    world_.broken(fmt::format("I1: token {} is granted beside {} living jobs, and {} may be", token,
                              running, limit));
  all_[token] = {mode, limit, ends, false, false, {}};
  ends_[token] = ends;
}

void Ledger::renewed(FencingToken token, Nanos ends) {
  const auto before = ends_.find(token);
  const Nanos old = before == ends_.end() ? ends : std::exchange(before->second, ends);
  if (before != ends_.end() && world_.now() >= old)
    world_.broken(fmt::format("I1: a renewal brings token {} back, whose lease has ended", token));
  const auto found = all_.find(token);
  if (found != all_.end()) found->second.ends = ends;
}

void Ledger::removed(FencingToken token, std::string_view how) {
  ends_[token] = world_.now();
  if (how == "delete") delays_.erase(token);
  const auto found = all_.find(token);
  if (found == all_.end()) return;
  if (found->second.job && !found->second.excused)
    world_.broken(fmt::format("I8: a {} ends the grant with token {} while the job of {} is alive",
                              how, token, found->second.who));
  if (!found->second.job) all_.erase(found);
}

void Ledger::expired(FencingToken token) {
  const auto found = all_.find(token);
  if (found == all_.end()) return;
  found->second.ends = world_.now();
  if (found->second.job && !found->second.excused)
    world_.broken(
        fmt::format("I3: token {} ends while the job of {} is alive", token, found->second.who));
}

void Ledger::started(FencingToken token, const std::string& who) {
  ++jobs;
  const auto found = all_.find(token);
  if (found == all_.end())
    return world_.broken(
        fmt::format("I10: {} starts a job under token {}, which is not granted", who, token));
  if (world_.now() >= found->second.ends)
    world_.broken(fmt::format("I3: {} starts a job under token {}, which has ended", who, token));
  found->second.job = true;
  found->second.who = who;
  for (const auto& [other, grant] : all_)
    if (other != token && grant.job && !grant.excused && !found->second.excused &&
        !together(grant.mode, found->second.mode))
      world_.broken(fmt::format("I2: {} starts a job (token {}) while that of {} (token {}) lives",
                                who, token, grant.who, other));
}

void Ledger::writes(FencingToken token, const std::string& who) {
  if (token >= written_) {
    written_ = token;
    return;
  }
  const auto found = all_.find(token);
  if (found != all_.end() && found->second.mode != Mode::exclusive)
    return;  // others may write, too
  ++stale_writes_refused;
  if (found != all_.end() && found->second.excused) return;
  world_.broken(fmt::format("I5: {} writes with token {} after one with {}", who, token, written_));
}

void Ledger::slept(FencingToken token) {
  if (const auto found = all_.find(token); found != all_.end()) found->second.excused = true;
}

void Ledger::forgotten_except(const std::map<FencingToken, Nanos>& kept) {
  for (auto& [token, grant] : all_) {
    const auto found = kept.find(token);
    if (found == kept.end() || found->second < grant.ends) grant.excused = true;
  }
}

void Ledger::died(FencingToken token, bool excused, Nanos lock_delay) {
  const auto found = all_.find(token);
  if (found == all_.end()) return;
  if (lock_delay > 0 && !excused && !found->second.excused)
    delays_[token] = {found->second.mode, world_.now() + lock_delay};
  if (!excused && world_.now() >= found->second.ends)
    world_.broken(fmt::format("I3: the job of {} is dead {:.3f} s after the end of token {}",
                              found->second.who,
                              static_cast<double>(world_.now() - found->second.ends) / 1e9, token));
  all_.erase(found);
}

std::uint64_t Ledger::hash() const noexcept {
  std::uint64_t h = mixed(newest_, written_);
  for (const auto& [token, delay] : delays_)
    h = mixed(h, mixed(token, static_cast<std::uint64_t>(delay.until)));
  for (const auto& [token, grant] : all_)
    h = mixed(h, mixed(token, static_cast<std::uint64_t>(grant.ends)) + (grant.job ? 1U : 0U) +
                     (grant.excused ? 2U : 0U));
  return h;
}

}  // namespace dlock::simulation
