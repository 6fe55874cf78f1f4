// SPDX-License-Identifier: Apache-2.0
#include "stores/contention.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include "history/report.hpp"

namespace dlock::test {

using history::What;
using namespace std::chrono_literals;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  bool one_in(unsigned n) { return random_() % n == 0; }
  long below(long n) { return static_cast<long>(random_() % static_cast<unsigned long>(n)); }

 private:
  std::mt19937 random_;
};

namespace {

// What is done again until it is answered; an error each time that it is not.
template <class Call>
auto answered(Call call, std::atomic<long>& errors) {
  auto answer = call();
  for (int i = 0; i < 20 && !answer; ++i) {
    ++errors;
    ::usleep(20'000);
    answer = call();
  }
  return answer;
}

}  // namespace

Contention::Contention(Terms terms) : terms_(std::move(terms)) {
  for (unsigned n = 0; n < terms_.clients; ++n) threads_.emplace_back([this, n] { client(n); });
}

void Contention::stop() {
  over_ = true;
  for (auto& t : threads_) t.join();
  threads_.clear();
}

void Contention::note(unsigned number, What what, const char* f, const Lease& lease) {
  history::Event e{.t = Clock::now().time_since_epoch().count(),
                   .pid = number,
                   .what = what,
                   .f = f,
                   .key = lease.key.text(),
                   .owner = lease.owner.hex()};
  if (what == What::ok && lease.token != 0) e.token = lease.token;
  if (what == What::ok && lease.deadline != Deadline{})
    e.deadline = lease.deadline.time_since_epoch().count();
  e.line = fmt::format("{} client {}: {} {} of {}, token {}, deadline {}", e.t, number, f,
                       what == What::invoke ? "asked"
                       : what == What::ok   ? "yes"
                                            : "no",
                       e.owner, lease.token, e.deadline.value_or(0));
  const std::lock_guard lock{mutex_};
  events_.push_back(e);
  if (what != What::ok || std::string_view{f} != "acquire" || e.t >= *e.deadline) return;
  // What the key guards is written at once, so that the order of tokens is that of the grants.
  e.what = What::write;
  e.accepted = true;
  events_.push_back(std::move(e));
}

void Contention::client(unsigned number) {
  Dice dice(terms_.seed * 100 + number);
  const auto backend = terms_.open(number);
  while (!over_) {
    const Request r =
        request(*Key::parse(fmt::format("contended{}", number % terms_.keys)), terms_.ttl);
    const Lease asked{.key = r.key, .owner = r.owner};
    note(number, What::invoke, "acquire", asked);
    const auto waiter = backend->enqueue(r).value();
    std::optional<Lease> lease;
    for (const Deadline give_up = Clock::now() + 3 * terms_.ttl;
         !lease && !over_ && Clock::now() < give_up;) {
      const auto p = waiter->poll(Duration{20'000 + dice.below(400'000)});
      if (p && std::holds_alternative<Granted>(*p)) lease = std::get<Granted>(*p).lease;
      if (p) continue;
      ++errors;
      ::usleep(10'000);
    }
    // As the start rule has it, a grant that is nearly over starts nothing.
    if (lease && Clock::now() + terms_.ttl / 4 <= lease->deadline) {
      note(number, What::ok, "acquire", *lease);
      ++grants_;
      use(*backend, *lease, number, dice);
      continue;
    }
    (void)answered([&] { return waiter->cancel(); }, errors);
    note(number, What::fail, "acquire", asked);
  }
}

// Most hold for a moment, some are renewed, a few for longer than their ttl.
void Contention::use(Backend& backend, Lease lease, unsigned number, Dice& dice) {
  const bool keeps = dice.one_in(400);
  const Deadline until = later(Clock::now(), keeps ? terms_.ttl * 3 / 2 : Duration{0});
  bool mine = true;
  for (int renewals = keeps            ? 1000
                      : dice.one_in(2) ? static_cast<int>(dice.below(4))
                                       : 0;
       mine && renewals > 0 && !over_; --renewals) {
    ::usleep(static_cast<useconds_t>(keeps ? (terms_.ttl / 3).count() : dice.below(30'000)));
    if (Clock::now() >= lease.deadline || (keeps && Clock::now() >= until)) break;
    const auto renewal = backend.renew(lease, terms_.ttl);
    if (!renewal) ++errors;
    if (const auto* kept = renewal ? std::get_if<Kept>(&*renewal) : nullptr) {
      lease = kept->lease;
      note(number, What::ok, "renew", lease);
    }
    mine = !renewal || std::holds_alternative<Kept>(*renewal);
  }
  if (!mine) {
    ++lost;
    note(number, What::fail, "renew", lease);
  }
  note(number, What::invoke, "release", lease);
  const auto released = answered([&] { return backend.release(lease); }, errors);
  if (mine && released == Released::yes) note(number, What::ok, "release", lease);
}

std::string Contention::violations() {
  stop();
  std::stable_sort(events_.begin(), events_.end(), [](auto& a, auto& b) { return a.t < b.t; });
  const auto verdict = history::check(history::gather(events_), {.in_order = false});
  return verdict.violations.empty() ? "" : history::markdown(verdict);
}

}  // namespace dlock::test
