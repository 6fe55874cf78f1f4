// SPDX-License-Identifier: Apache-2.0
#include "support/fake_backend.hpp"
#include <array>
#include <atomic>
#include <stdexcept>
#include "support/fake_impl.hpp"

namespace dlock::fake {
namespace {

constexpr std::array<std::string_view, 1> schemes{"fake"};
constexpr std::array<UrlItem, 1> items{{
    {"grant_after hang_after hang_wait hang_release drip throw_after "
     "lose lost_after renew_fails_after fail_open patience broken"},
}};
constexpr std::array<Traits, 1> recipes{{
    {.family = "fake",
     .recipe = "lease",
     .liveness = Liveness::lease,
     .fifo = true,
     .shared = true,
     .permits = true,
     .detached = true,
     .lock_delay = true,
     .wakes = true,
     .native = true,
     .weakness = "in the memory of one process, for tests",
     .starts = true},
}};

}  // namespace

Error lost_reply(const char* what) {
  return {Errc::timed_out, std::string(what) + " fake: no answer in time"};
}

Result<std::unique_ptr<Waiter>> FakeBackend::enqueue(const Request& r) {
  if (auto can = can_serve(traits(), r); !can) return fail(std::move(can.error()));
  return std::make_unique<FakeWaiter>(*this, r);
}

Result<Renewal> FakeBackend::extend(const Lease& lease, Duration ttl) {
  const Deadline sent = Clock::now();
  const Micros now = now_us();
  Table table;
  Entry* const known_one = known(table, lease.key);
  if (!known_one) return Renewal{Lost{"never heard of it"}};
  Entry& e = *known_one;
  const auto token = e.state.renew(lease.owner, ttl.count(), now);
  e.settle(now, false);
  if (!token) return Renewal{Lost{"the record is gone"}};
  Lease kept = lease;
  kept.token = *token;
  kept.deadline = lease_end(sent, ttl);
  if (lose(RequestKind::renew)) return fail(lost_reply("renew"));
  return Renewal{Kept{std::move(kept)}};
}

Result<Renewal> FakeBackend::renew(const Lease& lease, Duration ttl) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  const std::uint64_t before = renewals_++;
  const auto due = [before](const std::optional<std::uint64_t>& after) {
    return after && before >= *after;
  };
  if (due(faults_.hang_after)) hang();
  if (due(faults_.throw_after)) throw std::runtime_error("fake: renew throws");
  if (due(faults_.renew_fails_after))
    return fail(Errc::unavailable, "renew fake:" + store_ + ": not reachable");
  if (due(faults_.lost_after)) {
    const Micros now = now_us();
    Table table;
    Entry& e = entry(table, lease.key);
    e.state.release(lease.owner, now);
    e.settle(now, false);
    return Renewal{Lost{"taken away by a fault"}};
  }
  return extend(lease, ttl);
}

Result<Renewal> FakeBackend::detach(const Lease& lease, Duration ttl, std::optional<RunEnd>) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  auto answer = extend(lease, ttl);
  if (answer)
    if (auto* kept = std::get_if<Kept>(&*answer)) kept->lease.attached = false;
  return answer;
}

Result<Released> FakeBackend::release(const Lease& lease, std::optional<RunEnd>) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  if (faults_.hang_release) hang();
  const Micros now = now_us();
  Table table;
  Entry* const known_one = known(table, lease.key);
  if (!known_one) return Released::was_not_held;
  Entry& e = *known_one;
  e.spent.insert(lease.owner);
  const bool was = e.state.release(lease.owner, now);
  e.settle(now, false);
  if (was && lose(RequestKind::release)) return fail(lost_reply("release"));
  return was ? Released::yes : Released::was_not_held;
}

// What looks from outside comes from another process, which has locks of its own: none.
Result<Released> FakeBackend::force_release(const Key&, std::optional<FencingToken>) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  return Released::was_not_held;
}

Result<Validity> FakeBackend::check(const Key&, const GrantId&) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  return Validity::stale;
}

Result<std::optional<KeyView>> FakeBackend::inspect(const Key&) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  return std::optional<KeyView>{};
}

Result<std::vector<std::string>> FakeBackend::names() {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  return std::vector<std::string>{};
}

Result<RunStarts> FakeBackend::starts(const Key& key) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  Table table;
  const Entry* e = known(table, key);
  RunStarts s{wall_micros(), e ? e->start : std::nullopt};
  if (s.last && s.last->until <= s.now) s.last.reset();
  return s;
}

Result<UpdateResult> FakeBackend::note_start(const Lease& lease, const RunStartUpdate& change) {
  if (const auto begun = begin(); !begun) return fail(begun.error());
  const Micros now = now_us();
  Table table;
  Entry* const e = known(table, lease.key);
  if (!e || !e->state.holder(lease.owner, now)) return UpdateResult::not_held;
  if (!change.fits(e->start, wall_micros())) return UpdateResult::other_start;
  e->start = change.is;
  if (lose(RequestKind::note)) return fail(lost_reply("note the start"));
  return UpdateResult::yes;
}

namespace {

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings&) {
  TRY(parsed, Faults::parse(url));
  if (!url.hosts.empty()) return fail(Errc::usage, "fake: takes a name, not a host");
  const std::string prefix{url.item("prefix").value_or("dlock:")};
  return [&traits, faults = parsed, path = url.path, prefix](
             Duration, int interrupt_fd) -> Result<std::unique_ptr<Backend>> {
    static std::atomic<unsigned> broken_ones = 0;
    const std::string store = faults.broken ? path + "#" + std::to_string(++broken_ones) : path;
    return std::make_unique<FakeBackend>(store, prefix, traits, faults, interrupt_fd);
  };
}

}  // namespace

constinit const BackendFactory factory{"fake", schemes, recipes, items, prepare};

}  // namespace dlock::fake
