// SPDX-License-Identifier: Apache-2.0
// The rules of LockState, one story each. That it keeps them in any other story, and that nothing
// else changes, is shown by the model (lock_state_property_test.cpp).
#include "core/lock_state.hpp"
#include <catch2/catch.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>
#include "core/number.hpp"
#include "core/text.hpp"

using namespace dlock;

namespace {

constexpr Micros sec = 1'000'000;

Owner named(char name) {
  Owner o;
  o.bytes[0] = static_cast<std::uint8_t>(name);
  return o;
}

// A lock, a clock, and contenders of one letter. The steps of a story:
//   x:a s:a p3:a   asks for it exclusively, shared, as one of 3; what follows, for a request alone:
//                  /try /ttl10 /delay5 /patience5 (seconds) /floor7 (of the token)
//   release:a cancel:a renew:a/10 vanish:a force:7 (a token; 0: all) invite:10 (to claim it)
//   holds:a slot:a queue invited free_at       what there is
//   +10s +1us                                  time passes
// Behind a = stands what a step has to answer: G and the token, W and the rank, B; yes or no; names
// or a number; for a time the seconds from now on, or never.
class Scene {
 public:
  std::string step(std::string_view words) {
    const std::string_view verb = next_part(words, ':');
    if (verb.starts_with('+')) return pass(verb.substr(1));
    if (verb == "x" || verb == "s" || verb.starts_with('p')) return ask(verb, words);
    if (verb == "queue") return queue();
    if (verb == "free_at") return from_now(state.free_at());
    if (verb == "invited") return from_now(state.oldest_invitation_ends());
    const std::string_view what = next_part(words, '/');
    const char name = what.empty() ? ' ' : what[0];
    if (verb == "release") return answer(state.release(named(name), now_));
    if (verb == "cancel") return answer(state.cancel(named(name)));
    if (verb == "holds") return answer(state.holder(named(name), now_) != nullptr);
    if (verb == "slot") return std::to_string(state.holder(named(name), now_)->slot);
    if (verb == "force") return std::to_string(state.force_release(number(what)));
    if (verb == "vanish") return answer(state.vanish(ticket(name), now_));
    if (verb == "invite") return invite(seconds(what));
    if (verb == "expire") {
      state.expire(now_);
      return "";
    }
    if (verb != "renew") throw std::runtime_error("no such step");
    const auto token = state.renew(named(name), words.empty() ? never : seconds(words), now_);
    return token ? std::to_string(*token) : "no";
  }

  LockState state;

 private:
  static std::uint64_t number(std::string_view text) {
    return parse_number<std::uint64_t>(text).value();
  }
  static Micros seconds(std::string_view text) { return static_cast<Micros>(number(text)) * sec; }
  static std::string answer(bool yes) { return yes ? "yes" : "no"; }
  std::string from_now(Micros t) const {
    return t == never ? "never" : std::to_string((t - now_) / sec);
  }
  std::string pass(std::string_view span) {
    const bool small = span.ends_with("us");
    const std::string_view digits = span.substr(0, span.find_first_not_of("0123456789"));
    now_ += static_cast<Micros>(number(digits)) * (small ? 1 : sec);
    return "";
  }
  std::string ask(std::string_view verb, std::string_view words) {
    LockState::Acquisition a;
    const std::string_view name = next_part(words, '/');
    a.owner = named(name.at(0));
    a.meta = name;
    a.mode = verb == "x" ? Mode::exclusive : verb == "s" ? Mode::shared : Mode::permit;
    if (a.mode == Mode::permit) a.limit = static_cast<unsigned>(number(verb.substr(1)));
    while (!words.empty()) {
      const std::string_view option = next_part(words, '/');
      const auto digits = std::min(option.find_first_of("0123456789"), option.size());
      const std::string_view value = option.substr(digits), word = option.substr(0, digits);
      if (word == "try") a.wait = false;
      else if (word == "ttl") a.ttl = seconds(value);
      else if (word == "delay") a.delay = seconds(value);
      else if (word == "patience") a.patience = seconds(value);
      else if (word == "floor") a.token_floor = number(value);
      else throw std::runtime_error("no such option");
    }
    const auto got = state.acquire(a, now_);
    if (const auto* g = std::get_if<LockState::Granted>(&got)) return shown("G", g->token);
    if (const auto* w = std::get_if<LockState::Waiting>(&got)) return shown("W", w->rank);
    return "B";
  }
  static std::string shown(const char* letter, std::uint64_t n) {
    return letter + std::to_string(n);
  }
  std::uint64_t ticket(char name) const {
    for (const auto& h : state.holders)
      if (h.owner == named(name)) return h.ticket;
    const auto rank = state.rank_of(named(name));
    return rank < state.waiters.size() ? state.waiters[rank].ticket : 99;
  }
  std::string invite(Micros claim) {
    std::string names;
    for (const std::uint64_t t : state.invite(now_, claim))
      for (const auto& w : state.waiters)
        if (w.ticket == t) names += w.meta;
    return names;
  }
  std::string queue() const {
    std::string names;
    for (const auto& w : state.waiters) names += w.meta;
    return names;
  }

  Micros now_ = 100 * sec;
};

void tell(Scene& scene, const std::string& story) {
  std::istringstream steps(story);
  for (std::string step; steps >> step;) {
    const std::size_t wants = step.find('=');
    CAPTURE(step);
    const std::string got = scene.step(std::string_view{step}.substr(0, wants));
    if (wants != step.npos) CHECK(got == step.substr(wants + 1));
  }
}

struct Rule {
  const char *what, *story;
};

constexpr Rule who_gets_it[] = {
    {"exclusive locks are granted in order of arrival; a repeated request keeps its place",
     "x:a=G1 x:b=W0 x:c=W1 x:b=W0 release:a=yes x:c=W1 x:d=W2 x:b=G2 release:b=yes x:c=G3"},
    {"a try neither queues nor passes waiters",
     "x:a=G1 x:t/try=B queue= x:b=W0 release:a x:t/try=B x:b=G2 release:b x:t/try=G3"},
    {"a queued waiter that makes its last try keeps its place until it cancels",
     "x:a x:b x:b/try=B queue=b cancel:b=yes cancel:b=no queue="},
    {"readers pass together, and never a writer that came first",
     "s:a=G1 s:b=G2 x:w=W0 s:c=W1 s:d=W2 release:a x:w=W0 s:c=W1 release:b s:c=W1 x:w=G3 s:c=W0 "
     "release:w invite:10=cd s:d=G4 s:c=G5"},
    {"a writer waits for all readers", "s:a s:b x:w release:b x:w=W0 release:a x:w=G3"},
    {"permits: up to the limit, each with the lowest free slot",
     "p3:a=G1 p3:b=G2 p3:c=G3 slot:a=0 slot:b=1 slot:c=2 p3:d=W0 p3:e=W1 release:b p3:e=W1 "
     "p3:d=G4 slot:d=1 release:a release:c p3:e=G5 slot:e=0 p3:e=G5 slot:e=0 x:w=W0 p3:f=W1"},
    {"a permit of 1 excludes other permits; exclusive mode excludes permits and readers",
     "p1:a=G1 p1:b=W0 release:a cancel:b x:w=G2 p9:c=W0 s:d=W1 slot:w=0"},
    {"no waiter passes one with a smaller limit",
     "x:a=G1 p1:b=W0 p5:c=W1 release:a invite:10=b p5:c=W1 p1:b=G2 p5:c=G3 slot:c=1"},
    {"nor are more invited than fit beside those ahead",
     "x:a p2:b s:c p9:d release:a invite:10=bc"},
    {"a forced release removes the holder with a token, or all, and keeps the fence",
     "s:a s:b x:w force:99=0 force:1=1 holds:a=no holds:b=yes renew:a/1=no release:a=no force:0=1 "
     "force:0=0 queue=w x:w=G3"},
    {"tokens rise and reach their floor",
     "x:a/floor1000=G1000 release:a x:b=G1001 release:b x:a/floor5=G1002 release:a "
     "x:a/floor18446744073709551615=G18446744073709551615"},
};

constexpr Rule what_time_does[] = {
    {"a lease ends at its deadline, not before, and opens the key",
     "x:a/ttl10=G1 x:b=W0 free_at=10 +9999999us holds:a=yes x:b=W0 +1us holds:a=no x:b=G2 x:a=W0"},
    {"renewing sets the deadline from now, longer or shorter, and revives no ended lease",
     "x:a/ttl10 +9s renew:a/10=1 +9s holds:a=yes renew:a/1=1 +1s renew:a/10=no holds:a=no "
     "renew:z/1=no x:b=G2 renew:b/5=2 renew:b=2 +1000000s holds:b=yes"},
    {"a lease in its lock-delay is over (no renewal, no release), but the key is not free yet",
     "x:a/ttl10/delay5 +10s holds:a=no renew:a/10=no release:a=no x:b=W0 x:a/ttl10=W1 +4999999us "
     "x:b=W0 +1us x:b=G2"},
    {"a lock-delay follows a vanished holder once, never a release or a forced one, which ends it",
     "x:a/delay5 release:a=yes x:b/delay5=G2 force:2=1 x:c/delay5=G3 +1s vanish:c=yes holds:c=no "
     "free_at=5 x:d=W0 +1s vanish:c=no +4s x:d=G4 vanish:d=yes x:e=G5 force:0 x:f/delay5=G6 "
     "vanish:f force:6=1 x:g=G7"},
    {"a permit in its lock-delay keeps its slot and its place",
     "p2:a/delay5 p2:b vanish:a p2:c=W0 release:b p2:c=G3 slot:c=1 p2:d=W0 +5s p2:d=G4 slot:d=0"},
    {"vanish removes one waiter and affects no other",
     "x:a x:b x:c vanish:z=no vanish:b=yes queue=c holds:a=yes x:b=W1"},
    {"a silent waiter is dropped, one that polls is alive; a late request forgives, a dropped not",
     "x:a x:b/patience10=W0 x:c=W1 +9s x:b/patience10=W0 +9s expire queue=bc +1s x:b/patience10=W0 "
     "+10s x:c=W0 x:b/patience10=W1"},
    {"every waiter that may run is invited once; an unclaimed invitation ends",
     "x:a x:b s:c s:d invite:10= invited=never release:a invite:10=b invite:10= invited=10 "
     "free_at=10 +9999999us invite:10= +1us invite:10=cd queue=cd s:c=G2 s:d=G3 invited=never"},
    {"an invitation never extends a waiter's time",
     "x:a x:b/patience5 x:c +2s release:a invite:10=b invited=3"},
    {"an expired waiter is passed over", "x:a x:b/patience5 x:c force:0 +5s invite:10=c"},
    {"free_at takes a silent waiter ahead into account",
     "s:a x:w/patience5 s:r=W1 free_at=5 +5s invite:10=r"},
};

}  // namespace

TEST_CASE("who gets a key, who waits, which token") {
  for (const Rule& rule : who_gets_it) {
    INFO(rule.what);
    Scene scene;
    tell(scene, rule.story);
  }
}

TEST_CASE("what time does to a key: leases, lock-delays, silent waiters and invitations") {
  for (const Rule& rule : what_time_does) {
    INFO(rule.what);
    Scene scene;
    tell(scene, rule.story);
  }
}

TEST_CASE("there is no token behind the largest one, and the request for it changes nothing") {
  Scene scene;
  tell(scene, "x:a/floor18446744073709551615 release:a");
  const LockState before = scene.state;
  CHECK_THROWS_AS(scene.step("x:c"), std::overflow_error);
  CHECK(scene.state == before);
}

TEST_CASE("an invited waiter that could not run is invited again") {
  Scene scene;
  tell(scene, "x:a x:b release:a invite:10=b");
  LockState::Holder failed;  // as if the invitation of b had failed
  failed.owner = named('z');
  failed.ticket = 77;
  failed.token = 9;
  failed.deadline = never;
  scene.state.holders.push_back(failed);
  tell(scene, "x:b=W0 invited=never release:z invite:10=b");
}

TEST_CASE("the end of a program is added to its holder alone, once") {
  LockState state;
  for (const char name : {'a', 'b'})
    (void)state.acquire({.owner = named(name), .mode = Mode::shared, .meta = "pid=7"}, 1);
  state.note_end(named('a'), "");
  CHECK(state.holders[0].meta == "pid=7");
  state.note_end(named('a'), "ended=1.3&left=12.sshd");
  state.note_end(named('a'), "ended=2.4");
  CHECK(state.holders[0].meta == "pid=7&ended=2.4");
  CHECK(state.holders[1].meta == "pid=7");
}
