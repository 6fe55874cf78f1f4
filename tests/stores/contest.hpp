// SPDX-License-Identifier: Apache-2.0
// What the *_prove programs measure alike on each store: a free key, a queue for one. What a store
// is and what it promised are rows of its program. Counts are checked, times are printed.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include "support/client.hpp"
#include "support/prove.hpp"

namespace dlock::prove {

inline bool full = false;  // --full: the counts of scripts/prove

Key key(std::string_view text);
double per_second(long n, const std::function<void()>& call);

struct Place {
  std::string name;                                // in the figures
  std::function<std::unique_ptr<Backend>()> open;  // one more client
  // by the server's own count; without it by those of the clients
  std::function<std::uint64_t()> requests{};
  std::function<std::uint64_t(Backend&)> conflicts{};
};

struct Free {
  double requests;  // one takes, one gives back, as a rule; up to 0.1 fewer
  long n;
  int turns = 1;
  // What the store does without dlock in place of both. As often, in turns with them.
  std::function<void()> raw{};
};
void uncontended(const Place&, const Free&);

// Clients that take and release one key in a loop; all wait in one queue before the first is
// granted, whichever polls first.
struct Queue {
  unsigned waiters;
  long grants;                                   // at least one for each
  double most_requests = 1e9, most_wakes = 1e9;  // of a grant and its release
  Duration looks{};         // each waiter asks so often besides, which does not count
  bool with_first = false;  // the first places and the connections count, too
  bool ordered = true;
  Mode mode = Mode::exclusive;
  unsigned limit = 1;
  Duration ttl = std::chrono::seconds{300};
};
// The requests of a grant and its release, and those of them that may be looks.
struct Cost {
  double requests, looks;
};
Cost contended(const Place&, const Queue&);

struct Part {
  std::string_view name;
  std::function<void()> run;
  bool long_one = false;  // if no part is named, only with --full
};
// `PROGRAM [--full] [PART...]`: its exit status.
int run_parts(int argc, char** argv, std::initializer_list<Part> parts);

}  // namespace dlock::prove
