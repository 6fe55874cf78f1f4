// SPDX-License-Identifier: Apache-2.0
// Requests that arrive late and replies that are lost. Nothing here knows the requests of a recipe:
// of each call the first turn on the network is hit, then the second, and so on, until the call has
// no more of them.
#include <fmt/format.h>
#include <future>
#include <set>
#include "contract/helpers.hpp"

namespace dlock::contract {
namespace {

using test::Proxy;

// What the client does to whom it happens.
enum class Call { take, join, turn, leave, give_back, renew, release, note, detach, force, revoke };
constexpr std::pair<Call, const char*> calls[] = {{Call::take, "take a free key"},
                                                  {Call::join, "join the queue"},
                                                  {Call::turn, "a waiter's turn"},
                                                  {Call::leave, "leave the queue"},
                                                  {Call::give_back, "cancel what was granted"},
                                                  {Call::renew, "renew"},
                                                  {Call::release, "release"},
                                                  {Call::note, "note a start"},
                                                  {Call::detach, "detach"},
                                                  {Call::force, "forced release"},
                                                  {Call::revoke, "request to stop"}};

// When its request arrives: its sender ...
enum class Fate {
  taken,     // gave up, and another holds the key
  waited,    // waits for the answer, and another holds the key
  unwanted,  // gave up, and nobody holds the key
  repeated,  // has repeated it
  // At once, but its reply does not:
  cut,     // the connection breaks
  lost,    // the sender repeats it
  dropped  // the sender gives up
};
constexpr bool is_late(Fate f) { return f < Fate::cut; }

enum class Answer { unknown, yes, no };

constexpr Duration ttl = 60s;  // of request()

bool has(Call call) {
  const Traits& t = *subject().traits;
  return call == Call::note     ? t.starts
         : call == Call::revoke ? t.revokes
         : call == Call::detach ? t.detached
                                : true;
}
bool may_meet(Call call, Fate fate) {
  const bool acquires = call == Call::take || call == Call::join || call == Call::turn;
  if (fate == Fate::unwanted) return acquires;
  if (fate == Fate::dropped) return acquires || call == Call::renew;
  // Nobody is granted the key before those who wait. A request to stop means who holds the key when
  // that is read.
  if (fate == Fate::waited) return call == Call::take || (!acquires && call != Call::revoke);
  return true;
}

template <class Ask>
auto answer_to(Ask ask) {
  auto r = ask();
  for (const Deadline end = later(Clock::now(), patient);
       !r && retryable(r.error().code) && Clock::now() < end; ::usleep(20'000))
    r = ask();
  return r.value();
}

std::optional<Lease> granted(Waiter& w, Duration bound = patient) {
  for (const Deadline end = later(Clock::now(), bound); Clock::now() < end;) {
    const auto p = w.poll(std::chrono::duration_cast<Duration>(end - Clock::now()));
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
    if (!p) ::usleep(20'000);
  }
  return std::nullopt;
}
std::optional<Lease> granted(Backend& b, Duration bound = patient) {
  const auto w = b.enqueue(request("k")).value();
  auto lease = granted(*w, bound);
  if (!lease) CHECK(becomes([&] { return w->cancel().has_value(); }));
  return lease;
}

class Scene {
 public:
  Scene(Store& store, Call call, Fate fate)
      : call_(call),
        fate_(fate),
        proxies_(store.proxies()),
        other_(store.open({})),
        late_(store.open(settings())) {}

  // A client of so many grants: a recipe may know its requests by then.
  void prepare(int grants) {
    answer_to([&] { return late_->inspect(key("k")); });
    for (int i = 0; i < grants; ++i) {
      const Lease warm = granted(*late_).value();
      answer_to([&] { return late_->release(warm); });
    }
    const bool behind = call_ == Call::join || call_ == Call::turn || call_ == Call::leave;
    if (behind || call_ == Call::force || call_ == Call::revoke) theirs_ = granted(*other_);
    if (behind || call_ == Call::take || call_ == Call::give_back)
      waiter_ = late_->enqueue(request("k")).value();
    if (call_ == Call::turn || call_ == Call::leave) answer_to([&] { return waiter_->poll(20ms); });
    if (call_ == Call::turn) release_theirs();
    if (call_ == Call::give_back) mine_ = granted(*waiter_);
    if (!theirs_ && !waiter_) mine_ = granted(*late_);
    if (call_ == Call::note) {
      const Starts s = answer_to([&] { return late_->starts(key("k")); });
      start_ = {s.last, Start{s.now, s.now + 3'600'000'000}};
    }
  }

  // Makes the call; false: it has no n-th turn.
  bool hits(unsigned nth, std::size_t servers) {
    std::list<Proxy*> hit;
    for (Proxy& p : proxies_)
      if (hit.size() < servers) hit.push_back(&p);
    for (Proxy* p : hit)
      if (is_late(fate_)) p->hold(nth);
      else p->lose_reply(nth, fate_ != Fate::cut);
    answer_ = std::async(std::launch::async, [this] { return make_call(); });
    const auto ended = [&](Duration d) {
      return answer_.wait_for(std::chrono::microseconds{d}) == std::future_status::ready;
    };
    const auto count = [&] {
      return static_cast<std::size_t>(std::count_if(hit.begin(), hit.end(), [&](Proxy* p) {
        return is_late(fate_) ? p->holds_one(1ms) : p->lost_one(1ms);
      }));
    };
    if (fate_ == Fate::waited) CHECK(becomes([&] { return ended(0s) || count() == hit.size(); }));
    else CHECK(ended(patient));
    const bool any = count() > 0;
    for (Proxy& p : proxies_) p.forget();
    if (!any) (void)answer_.get();
    return any;
  }

  void ends() {
    if (fate_ == Fate::taken || fate_ == Fate::waited) another_comes_first();
    else if (fate_ == Fate::unwanted || fate_ == Fate::dropped) nobody_wants_it();
    else sender_repeats_it();
    if (subject().late_takes && is_late(fate_)) pass(ttl);
    CHECK(becomes([&] { return free_now(*other_, request("k")); }));
  }

 private:
  Settings settings() const {
    Settings s;
    s.op_timeout = fate_ == Fate::waited || fate_ == Fate::cut ? 10s : 300ms;
    s.connect_timeout = 1s;
    return s;
  }
  void arrives() {
    for (Proxy& p : proxies_) p.let_go();
    for (Proxy& p : proxies_) REQUIRE(p.answered());
  }
  void release_theirs() {
    CHECK(other_->release(*theirs_).value() == Released::yes);
    theirs_.reset();
  }
  void leave() {
    if (waiter_) CHECK(becomes([&] { return waiter_->cancel().has_value(); }));
    waiter_.reset();
  }

  // On a thread of its own.
  Answer make_call() {
    const auto of = [](const auto& r, auto good) {
      return !r ? Answer::unknown : good(*r) ? Answer::yes : Answer::no;
    };
    const auto keeps = [this](const Renewal& r) {
      if (const auto* k = std::get_if<Kept>(&r)) mine_ = k->lease;
      return std::holds_alternative<Kept>(r);
    };
    const auto is = [](auto what) { return [what](auto seen) { return seen == what; }; };
    switch (call_) {
      case Call::take:
      case Call::join:
      case Call::turn:
        // Long enough to send what it sleeps by.
        return of(waiter_->poll(call_ == Call::turn   ? 2s
                                : call_ == Call::join ? 50ms
                                                      : 0s),
                  [this](const Progress& p) {
                    if (const auto* g = std::get_if<Granted>(&p)) mine_ = g->lease;
                    return std::holds_alternative<Granted>(p);
                  });
      case Call::leave:
      case Call::give_back: return waiter_->cancel() ? Answer::yes : Answer::unknown;
      case Call::renew: {
        // The first one is for less: a later one must outlast its late arrival.
        const bool less = fate_ == Fate::repeated && !std::exchange(asked_, true) &&
                          !subject().late_renewal_counts;
        return of(late_->renew(*mine_, less ? ttl / 6 : ttl), keeps);
      }
      case Call::release: {
        const RunEnd end{false, 7};
        const bool keeps_it = subject().traits->keeps_last_run;
        return of(late_->release(*mine_, keeps_it ? std::optional{end} : std::nullopt),
                  is(Released::yes));
      }
      case Call::note: return of(late_->note_start(*mine_, start_), is(Noted::yes));
      case Call::detach: return of(late_->detach(*mine_, ttl), keeps);
      case Call::force:
        return of(late_->force_release(key("k"), theirs_->token), is(Released::yes));
      case Call::revoke: return of(late_->revoke(key("k")), is(Released::yes));
    }
    return Answer::no;
  }

  // All that others see of the key.
  std::string seen() {
    const auto view = answer_to([&] { return other_->inspect(key("k")); });
    if (!view) return "nothing";
    std::string text = fmt::format("fence {}, last run {}, start {}", view->fence,
                                   view->last_run ? view->last_run->text(' ') : "-",
                                   view->noted_start.value_or(0));
    for (const HolderView& h : view->holders)
      text += fmt::format("; {} {}{}", h.id, h.token, h.revoked ? " is asked to stop" : "");
    return text;
  }

  void another_comes_first() {
    if (fate_ == Fate::taken) {
      (void)answer_.get();
      const bool acquires = call_ != Call::leave && call_ != Call::give_back;
      if (waiter_ && acquires) (void)waiter_->cancel();
    }
    if (mine_) answer_to([&] { return other_->force_release(key("k"), mine_->token); });
    if (call_ == Call::force || call_ == Call::revoke) release_theirs();
    // A session may have the lock already when its later requests are held back.
    if (!theirs_) theirs_ = granted(*other_, 2s);
    const std::string before = seen();
    arrives();
    if (fate_ == Fate::waited) {
      const Answer answer = answer_.get();
      if (theirs_) CHECK(answer != Answer::yes);
      else if (mine_) CHECK(becomes([&] { return late_->release(*mine_).has_value(); }));
    }
    if (theirs_) {
      CHECK(seen() == before);
      CHECK(other_->check(key("k"), theirs_->token).value() == Validity::valid);
      const auto renewed = other_->renew(*theirs_, ttl);
      CHECK(kept(renewed));
      if (kept(renewed)) CHECK_FALSE(std::get<Kept>(*renewed).revoked);
    }
    leave();
    if (theirs_) release_theirs();
  }

  void nobody_wants_it() {
    (void)answer_.get();
    // With its connection held back it may go on the same way.
    if (waiter_) (void)waiter_->cancel();
    if (fate_ == Fate::unwanted) {
      pass(1s);  // a request says until when it may be carried out
      arrives();
    }
    leave();
    if (theirs_) release_theirs();
    if (call_ == Call::renew)
      CHECK(answer_to([&] { return late_->release(*mine_); }) == Released::yes);
  }

  void sender_repeats_it() {
    const bool needs_grant = call_ == Call::take || call_ == Call::turn;
    Answer answer = answer_.get();
    // Told by the end of its connection, it has time to repeat it.
    if (fate_ == Fate::cut && (call_ == Call::renew || call_ == Call::release))
      CHECK(answer == Answer::yes);
    becomes([&] {
      if (answer == Answer::unknown || (needs_grant && answer == Answer::no)) answer = make_call();
      return answer == Answer::yes || (answer == Answer::no && !needs_grant);
    });
    // who repeats a forced release finds nothing
    if (call_ != Call::force) CHECK(answer == (call_ == Call::join ? Answer::no : Answer::yes));
    if (call_ == Call::join && fate_ == Fate::repeated) arrives();
    if (call_ == Call::join) {
      const auto view = answer_to([&] { return other_->inspect(key("k")); }).value();
      if (view.waiters_known) CHECK(view.waiters.size() == 1);
      release_theirs();
      mine_ = granted(*waiter_);
    }
    if (call_ == Call::leave) release_theirs();
    if (call_ == Call::leave || call_ == Call::give_back || call_ == Call::release ||
        call_ == Call::force)
      mine_ = granted(*late_);
    if (call_ != Call::join && fate_ == Fate::repeated) arrives();
    if (call_ == Call::revoke) {
      CHECK(std::get<Kept>(other_->renew(*theirs_, ttl).value()).revoked);
      return release_theirs();
    }
    REQUIRE(mine_);
    if (call_ == Call::note)
      CHECK(answer_to([&] { return other_->starts(key("k")); }).last == start_.is);
    holds(*mine_);
    CHECK(answer_to([&] { return late_->release(*mine_); }) == Released::yes);
  }

  // And for no longer than the store says.
  void holds(const Lease& lease) {
    CHECK(other_->check(key("k"), lease.token).value() == Validity::valid);
    const auto view = answer_to([&] { return other_->inspect(key("k")); }).value();
    REQUIRE(view.holders.size() == 1);
    const auto rest = view.holders[0].remaining;
    if (rest && lease.deadline != no_deadline) CHECK(*rest >= lease.deadline - Clock::now());
    CHECK(std::holds_alternative<Kept>(answer_to([&] { return late_->renew(lease, ttl); })));
  }

  const Call call_;
  const Fate fate_;
  std::list<Proxy>& proxies_;
  std::unique_ptr<Backend> other_, late_;
  std::unique_ptr<Waiter> waiter_;
  std::optional<Lease> mine_, theirs_;
  StartChange start_;
  bool asked_ = false;
  std::future<Answer> answer_;  // the last to go: its thread uses the others
};

void meets(Store& store, Fate fate) {
  const std::size_t servers = store.proxies().size();
  need(servers > 0, "a server");
  for (const auto& [call, name] : calls) {
    if (!has(call) || !may_meet(call, fate)) continue;
    for (const int grants : {2, 0})
      for (const std::size_t at : std::set{servers / 2, servers / 2 + 1, servers})
        for (unsigned turn = 1, met = turn; at > 0 && met == turn; ++turn) {
          if (grants == 0 && call != Call::take) continue;
          INFO(name << ", turn " << turn << " at " << at << " of " << servers << ", " << grants
                    << " grants before");
          Scene scene{store, call, fate};
          scene.prepare(grants);
          if (!scene.hits(turn, at)) continue;
          ++met;
          scene.ends();
        }
  }
}

}  // namespace

CONTRACT_CASE("messages: a request of a sender that gave up arrives when another holds the key") {
  meets(store, Fate::taken);
}
CONTRACT_CASE("messages: a request whose sender waits arrives when another holds the key") {
  meets(store, Fate::waited);
}
CONTRACT_CASE("messages: a request of a sender that gave up arrives when nobody holds the key") {
  meets(store, Fate::unwanted);
}
CONTRACT_CASE("messages: a request arrives when its sender has repeated it") {
  meets(store, Fate::repeated);
}
CONTRACT_CASE("messages: a connection breaks instead of the reply") { meets(store, Fate::cut); }
CONTRACT_CASE("messages: a reply is lost, and the sender repeats its request") {
  meets(store, Fate::lost);
}
CONTRACT_CASE("messages: a reply is lost, and the sender gives up") { meets(store, Fate::dropped); }

// All that dlock promises of time: no call lasts much longer than its op_timeout.
CONTRACT_CASE("messages: a store that is silent: calls end in time, and their outcome is unknown") {
  need(!store.proxies().empty(), "a server");
  Settings s;
  s.op_timeout = 300ms;
  s.connect_timeout = 500ms;
  const auto holder = store.open(s), waits = store.open(s);
  const Lease lease = granted(*holder).value();
  const auto w = waits->enqueue(request("k")).value();
  CHECK(std::holds_alternative<Waiting>(answer_to([&] { return w->poll(20ms); })));
  const auto silent = [&](bool on) {
    for (Proxy& p : store.proxies()) p.stall(Proxy::to_client, on);
  };
  silent(true);
  const Deadline began = Clock::now();
  for (int i = 0; i < 3; ++i) CHECK_FALSE(holder->renew(lease, ttl).has_value());
  const auto p = w->poll(100ms);
  CHECK((!p || std::holds_alternative<Waiting>(*p)));
  CHECK_FALSE(holder->check(key("k"), lease.token).has_value());
  CHECK(Clock::now() - began < 10s);  // of six timeouts
  silent(false);
  const auto again = answer_to([&] { return holder->renew(lease, ttl); });
  REQUIRE(std::holds_alternative<Kept>(again));
  CHECK(std::get<Kept>(again).lease.token == lease.token);
  CHECK(answer_to([&] { return holder->release(lease); }) == Released::yes);
  CHECK(granted(*w).value().token > lease.token);
}

}  // namespace dlock::contract
