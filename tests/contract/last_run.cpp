// SPDX-License-Identifier: Apache-2.0
// The record of the last run of a job: written by its release or detach, without another exchange.
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

std::optional<LastRun> last_of(Backend& b) {
  const auto seen = b.inspect(key("k")).value();
  return seen ? seen->last_run : std::nullopt;
}

void need_it() { need(subject().traits->keeps_last_run, "that it keeps the last run"); }

}  // namespace

CONTRACT_CASE("last run: written with the release, in no more requests, and shown for a free key") {
  need_it();
  const auto backend = store.open({}), other = store.open({});
  Granted g = take(*backend, request("k"));
  CHECK(backend->release(g.lease).value() == Released::yes);
  CHECK_FALSE(last_of(*other));  // no job
  std::uint64_t without = 0;
  for (int i = 0; i < 4; ++i) {  // a key that is new, was read, was renewed
    CAPTURE(i);
    g = take(*backend, request("k"));
    if (i == 2) CHECK(kept(backend->renew(g.lease, 60s)));
    const std::uint64_t before = backend->counters().requests;
    const auto end = i > 0 ? std::optional{RunEnd{i == 3, 10 + i}} : std::nullopt;
    CHECK(backend->release(g.lease, end).value() == Released::yes);
    const std::uint64_t requests = backend->counters().requests - before;
    if (i == 0) without = requests;
    else CHECK(requests <= without);
    const auto last = last_of(*other);
    REQUIRE(last.has_value() == (i > 0));
    if (i == 0) continue;
    CHECK(last->token == g.lease.token);
    CHECK(last->end.by_signal == (i == 3));
    CHECK(last->end.value == 10 + i);
    CHECK(last->who.pid == ::getpid());
    CHECK(last->who.host == Identity::mine("").host);
    CHECK(last->ended >= last->started);
    CHECK(last->started > 1'600'000'000'000'000);
    CHECK(other->inspect(key("k")).value()->holders.empty());
  }
  g = take(*other, request("k"));  // it stays while others hold, and release without a job
  CHECK(last_of(*backend)->end.value == 13);
  CHECK(other->release(g.lease).value() == Released::yes);
  CHECK(last_of(*backend)->end.value == 13);
}

CONTRACT_CASE("last run: of several holders the newest token counts") {
  need_it();
  need(subject().traits->permits, "permits");
  const auto one = store.open({}), two = store.open({});
  const Granted a = take(*one, request("k", Mode::permit, 2));
  const Granted b = take(*two, request("k", Mode::permit, 2));
  REQUIRE(b.lease.token > a.lease.token);
  CHECK(two->release(b.lease, RunEnd{false, 2}).value() == Released::yes);
  CHECK(last_of(*one)->end.value == 2);
  CHECK(one->release(a.lease, RunEnd{false, 1}).value() == Released::yes);
  CHECK(last_of(*one)->token == b.lease.token);
  CHECK(last_of(*one)->end.value == 2);
}

CONTRACT_CASE("last run: a late release does not replace that of a newer grant") {
  need_it();
  const auto one = store.open({}), two = store.open({});
  const Granted a = take(*one, request("k"));
  // of Redlock a call removes what is read in time
  while (two->force_release(key("k"), a.lease.token).value() == Released::yes) ::usleep(1000);
  const Granted b = take(*two, request("k"));
  CHECK(one->release(a.lease, RunEnd{false, 1}).value() == Released::was_not_held);
  CHECK_FALSE(last_of(*two));
  CHECK(two->release(b.lease, RunEnd{false, 2}).value() == Released::yes);
  CHECK(one->release(a.lease, RunEnd{false, 1}).value() == Released::was_not_held);
  CHECK(last_of(*two)->token == b.lease.token);
}

CONTRACT_CASE("last run: written with a detach") {
  need_it();
  need(subject().traits->detached, "leases that outlive the process");
  const auto one = store.open({}), two = store.open({});
  for (int i = 1; i < 3; ++i) {
    const Granted g = take(*one, request("k"));
    const std::uint64_t before = one->counters().requests;
    CHECK(kept(one->detach(g.lease, 60s, RunEnd{false, i})));
    CAPTURE(one->counters().requests - before);
    REQUIRE(last_of(*two).has_value());
    CHECK(last_of(*two)->token == g.lease.token);
    CHECK(last_of(*two)->end.value == i);
    CHECK(two->force_release(key("k"), g.lease.token).value() == Released::yes);
  }
}
