// SPDX-License-Identifier: Apache-2.0
// What a schedule may decide, and where. A simulation without decisions has no faults; it is
// determined by its Scenario and by the list of the decisions that were taken.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::simulation {

using Nanos = std::int64_t;
inline constexpr Nanos millisecond = 1'000'000, second = 1'000'000'000;

// What the clients share.
enum class StoreKind { redis, zookeeper, file };

// Where something can go wrong: a connection is being opened, a request or a reply is on its way, a
// process is about to make a system call or to wake. undo: a request that ends a grant or a wait.
enum class Point { dial, request, undo, reply, step };

struct Fault {
  enum class Kind {
    none,
    late,           // the message arrives `span` later, whatever its sender does meanwhile
    lost,           // and nothing more arrives in this direction of the connection
    cut,            // the message arrives, then both ends see the connection reset
    restart_first,  // the store restarts before the request; what it keeps is in its model
    restart_then,   // the same, after it has executed the request
    freeze,         // the store executes nothing for `span`; requests wait in its sockets
    evict,          // the store drops the record of the lock, to have memory, and runs on
    fail_over,      // a replica takes over that lacks what the store did in the last `span`
    stop,           // dlock (all threads, not its guard) is stopped for `span`
    kill,           // dlock is killed
    sleep,          // the machine is suspended for `span`; CLOCK_BOOTTIME goes on
    full,           // the disk has no free space for `span`
    remove,         // somebody deletes the state of the lock from the disk
  };
  Kind kind = Kind::none;
  Nanos span = 0;
};
std::string text(const Fault&);

struct Decision {
  std::uint64_t number = 0;  // of the point, counted from 1
  Fault fault;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual Fault decide(std::uint64_t number, Point) = 0;
};

// Only these decisions.
class Listed final : public Schedule {
 public:
  explicit Listed(std::vector<Decision> decisions) : decisions_(std::move(decisions)) {}
  Fault decide(std::uint64_t number, Point) override;

 private:
  std::vector<Decision> decisions_;
};

// A number that depends on `seed` and `n` alone, and looks random.
constexpr std::uint64_t scrambled(std::uint64_t seed, std::uint64_t n) noexcept {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + n * 0xbf58476d1ce4e5b9U + 0x94d049bb133111ebU;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// One independent random sequence.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t any() noexcept { return scrambled(seed_, ++rolled_); }
  std::uint64_t below(std::uint64_t n) noexcept { return any() % n; }
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }
  // From `least` on, each doubling up to `most` equally likely.
  Nanos span(Nanos least, Nanos most) noexcept;

 private:
  std::uint64_t seed_, rolled_ = 0;
};

// Faults at rates that the seed chooses; more often where much depends on the order (undo), and
// soon after another fault.
class Random final : public Schedule {
 public:
  // `ttl`: spans are chosen around it.
  Random(std::uint64_t seed, Nanos ttl, StoreKind store);
  Fault decide(std::uint64_t number, Point) override;

 private:
  Fault of_message(Point);
  Fault of_process();

  Dice dice_;
  const Nanos ttl_;
  const StoreKind store_;
  std::uint64_t message_one_in_, step_one_in_;
  std::uint64_t agitated_until_ = 0;  // points
  unsigned left_;                     // faults at most
};

}  // namespace dlock::simulation
