// SPDX-License-Identifier: Apache-2.0
#include "simulation/schedule.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace dlock::simulation {

using Kind = Fault::Kind;

std::string text(const Fault& fault) {
  constexpr std::array<std::string_view, 14> names{"nothing",
                                                   "the message is late",
                                                   "the message is lost",
                                                   "the connection is cut behind the message",
                                                   "the store restarts before the request",
                                                   "the store restarts behind the request",
                                                   "the store freezes",
                                                   "the record is evicted",
                                                   "a replica takes over, which is behind",
                                                   "dlock is stopped",
                                                   "dlock is killed",
                                                   "the machine sleeps",
                                                   "the disk is full",
                                                   "the state is deleted"};
  const std::string_view name = names.at(static_cast<std::size_t>(fault.kind));
  if (fault.span == 0) return std::string{name};
  return fmt::format("{} for {:.3f} s", name, static_cast<double>(fault.span) / 1e9);
}

Fault Listed::decide(std::uint64_t number, Point) {
  const auto found = std::find_if(decisions_.begin(), decisions_.end(),
                                  [&](const Decision& d) { return d.number == number; });
  return found == decisions_.end() ? Fault{} : found->fault;
}

Nanos Dice::span(Nanos least, Nanos most) noexcept {
  unsigned doublings = 0;
  while ((least << (doublings + 1)) <= most) ++doublings;
  const Nanos from = least << below(doublings + 1);
  return from + static_cast<Nanos>(below(static_cast<std::uint64_t>(from)));
}

Random::Random(std::uint64_t seed, Nanos ttl, StoreKind store)
    : dice_(scrambled(seed, 1)), ttl_(ttl), store_(store) {
  constexpr std::array<std::uint64_t, 5> of_messages{0, 60, 15, 8, 4};
  constexpr std::array<std::uint64_t, 4> of_steps{0, 300, 80, 30};
  message_one_in_ = of_messages.at(dice_.below(of_messages.size()));
  step_one_in_ = of_steps.at(dice_.below(of_steps.size()));
  if (store_ == StoreKind::file) step_one_in_ *= 2;  // a step is a system call there
  left_ = static_cast<unsigned>(1 + dice_.below(12));
}

Fault Random::decide(std::uint64_t number, Point where) {
  std::uint64_t one_in = where == Point::step ? step_one_in_ : message_one_in_;
  if (left_ == 0 || one_in == 0) return {};
  if (where == Point::undo) one_in = std::min<std::uint64_t>(one_in, 6);
  if (number < agitated_until_) one_in = 1 + one_in / 4;
  if (!dice_.one_in(one_in)) return {};
  --left_;
  agitated_until_ = number + 30;
  return where == Point::step ? of_process() : of_message(where);
}

Fault Random::of_message(Point where) {
  if (store_ == StoreKind::redis && where == Point::request && dice_.one_in(8)) {
    if (dice_.one_in(3)) return {Kind::evict, 0};
    return {Kind::fail_over, dice_.span(millisecond, 2 * second)};
  }
  switch (dice_.below(where == Point::request ? 10 : 6)) {
    default: return {Kind::late, dice_.span(ttl_ / 16, ttl_ * 2)};
    case 3: return {Kind::lost, 0};
    case 4:
    case 5: return {Kind::cut, 0};
    case 6: return {Kind::restart_first, 0};
    case 7: return {Kind::restart_then, 0};
    case 8: return {Kind::freeze, dice_.span(ttl_ / 16, ttl_ * 2)};
  }
}

Fault Random::of_process() {
  if (store_ == StoreKind::file && dice_.one_in(4)) {
    if (dice_.one_in(2)) return {Kind::remove, 0};
    return {Kind::full, dice_.span(ttl_ / 16, ttl_)};
  }
  switch (dice_.below(store_ == StoreKind::file ? 5 : 6)) {
    default: return {Kind::stop, dice_.span(ttl_ / 16, ttl_ * 2)};
    case 4: return {Kind::kill, 0};
    case 5: return {Kind::sleep, dice_.span(ttl_ / 16, ttl_ * 2)};
  }
}

}  // namespace dlock::simulation
