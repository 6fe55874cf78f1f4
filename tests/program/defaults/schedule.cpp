// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"
#include <algorithm>
#include <string>
#include <thread>
#include "support/process.hpp"

namespace dlock::test {
namespace {

using Whom = Cell::Whom;

void to_store(const Scene& s, const char* what) {
  for (const auto& c : s.cells) c->note_fault(what);
}
void kill(const Scene& s, Whom whom) {
  for (const auto& c : s.cells) c->kill(whom);
}
void longer_than_any_lease(const Scene& s) { std::this_thread::sleep_for(s.three / 2); }

void stop(const Scene& s, Whom whom) {
  for (const auto& c : s.cells) c->stop(whom);
  longer_than_any_lease(s);
  for (const auto& c : s.cells) c->go_on(whom);
}
void freeze(const Scene& s, const std::vector<Whom>& killed) {
  to_store(s, "frozen");
  s.store.freeze();
  for (const Whom whom : killed) kill(s, whom);
  longer_than_any_lease(s);
  s.store.thaw();
}
void restart(const Scene& s, const std::vector<Whom>& killed) {
  to_store(s, "restarted");
  for (const Whom whom : killed) kill(s, whom);
  s.store.restart();
}
// The slots of the locks and queues, of which half is moved when somebody dies.
void move(const Scene& s, const std::vector<Whom>& killed) {
  to_store(s, "moved");
  for (const auto& c : s.cells)
    s.store.move(c->key(), [&] {
      for (const Whom whom : killed) c->kill(whom);
      longer_than_any_lease(s);
    });
}

constexpr Cell::Excuses none{}, lost{.lost = true}, forgets{.lost = true, .forgets = true};

const Schedule known[]{
    {"hold", none, [](const Scene&) {}},
    {"frozen", lost, [](const Scene& s) { freeze(s, {}); }},
    {"restarted", lost, [](const Scene& s) { restart(s, {}); }},
    {"killed", none, [](const Scene& s) { kill(s, Whom::holder); }},
    {"stopped", none, [](const Scene& s) { stop(s, Whom::holder); }},
    {"waiter-killed", none, [](const Scene& s) { kill(s, Whom::waiter); }},
    {"waiter-stopped", none, [](const Scene& s) { stop(s, Whom::waiter); }},
    {"pair-killed", none, [](const Scene& s) { kill(s, Whom::holder), kill(s, Whom::waiter); }},
    {"frozen-killed", lost, [](const Scene& s) { freeze(s, {Whom::holder}); }},
    {"frozen-pair-killed", lost,
     [](const Scene& s) {
       freeze(s, {Whom::holder, Whom::waiter});
     }},
    {"restarted-killed", lost, [](const Scene& s) { restart(s, {Whom::holder}); }},
    {"flushed", forgets, [](const Scene& s) { to_store(s, "flushed"), s.store.wipe(); }},
    {"failed-over", lost, [](const Scene& s) { to_store(s, "failed over"), s.store.fail_over(); }},
    {"failed-over-killed", lost,
     [](const Scene& s) {
       to_store(s, "failed over"), kill(s, Whom::holder), s.store.fail_over();
     }},
    {"moved", none, [](const Scene& s) { move(s, {}); }},
    {"moved-killed", none, [](const Scene& s) { move(s, {Whom::holder}); }},
    {"moved-waiter-killed", none, [](const Scene& s) { move(s, {Whom::waiter}); }},
    {"moved-pair-killed", none,
     [](const Scene& s) {
       move(s, {Whom::holder, Whom::waiter});
     }},
};

}  // namespace

const Schedule& schedule(std::string_view name) {
  const auto* found = std::find_if(std::begin(known), std::end(known),
                                   [&](const Schedule& s) { return s.name == name; });
  if (found == std::end(known)) give_up(std::string{name} + ": no such schedule");
  return *found;
}

}  // namespace dlock::test
