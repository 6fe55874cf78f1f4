// SPDX-License-Identifier: Apache-2.0
// --once-per of several keepers that hold the key at the same time.
#include <poll.h>
#include <barrier>
#include <catch2/catch.hpp>
#include <chrono>
#include <vector>
#include "run/keeper.hpp"
#include "run/wrap/wrapped.hpp"
#include "support/fake_backend.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

constexpr int keepers = 4;

// All read the last start before the first notes its own.
class ReadsTogether final : public run::Wrapped {
 public:
  ReadsTogether(std::unique_ptr<Backend> inner, std::barrier<>& together)
      : Wrapped(std::move(inner)), together_(together) {}
  Result<Starts> starts(const Key& k) override {
    auto s = inner_->starts(k);
    if (!std::exchange(read_, true)) together_.arrive_and_wait();
    return s;
  }

 private:
  std::barrier<>& together_;
  bool read_ = false;
};

// All that a keeper uses lives as long as the process.
struct Contender {
  run::Plan plan{.request = {.key = Key::parse("k").value()}};
  run::Keeper* keeper = nullptr;

  Contender(Mode mode, const std::string& url, std::barrier<>& together) {
    plan.traits = fake::factory.recipes[0];
    plan.open = [&together, url = Url::parse(url).value()](
                    const Settings& s) -> Result<std::unique_ptr<Backend>> {
      auto inner = fake::factory.open(url, fake::factory.recipes[0], s);
      return std::make_unique<ReadsTogether>(std::move(*inner), together);
    };
    plan.request.owner = Owner::random();
    plan.request.mode = mode;
    if (mode == Mode::permit) plan.request.limit = keepers;
    plan.request.ttl = 1h;
    plan.timing.proven = 30min;
    plan.timing.renew_every = 10min;
    plan.timing.op_timeout = 1s;
    plan.once_per = run::OncePer::parse("1h").value();
    keeper = new run::Keeper(plan, *new run::Output(plan));
    keeper->start();
  }
  // Whether it may start its job.
  bool starts() {
    for (const auto end = std::chrono::steady_clock::now() + 60s;
         std::chrono::steady_clock::now() < end;) {
      for (const auto& r : keeper->events()) {
        if (std::holds_alternative<run::event::Acquired>(r)) return true;
        if (const auto* e = std::get_if<run::event::WaitEnded>(&r)) {
          CAPTURE(e->message);
          CHECK(e->busy);
          return false;
        }
      }
      pollfd p{keeper->fd(), POLLIN, 0};
      ::poll(&p, 1, 100);
    }
    FAIL("no report");
    return false;
  }
};

}  // namespace

TEST_CASE("--once-per: of readers or permits that read the same, one starts; a lost reply or not") {
  struct {
    Mode mode;
    const char* url;
  } const cells[] = {{Mode::shared, "fake:starts_shared"},
                     {Mode::permit, "fake:starts_permits"},
                     {Mode::permit, "fake:starts_lost?lose=note"}};
  for (const auto& cell : cells) {
    CAPTURE(cell.url);
    auto& together = *new std::barrier<>(keepers);
    static auto& kept = *new std::vector<Contender*>;  // which leak checkers look at
    for (int i = 0; i < keepers; ++i) kept.push_back(new Contender(cell.mode, cell.url, together));
    int started = 0;
    for (auto c = kept.end() - keepers; c != kept.end(); ++c) started += (*c)->starts();
    CHECK(started == 1);
  }
}
