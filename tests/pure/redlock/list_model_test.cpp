// SPDX-License-Identifier: Apache-2.0
// Why two lists of masters exclude each other (backends/redlock/redlock_backend.hpp, "Lists"), by
// random schedules of a model: clients of an old list, clients of a new one, and clients that
// change the list; messages that arrive in any order, late or never; clients that die between any
// two messages, whose votes then end one by one. No two grants may be in force at once.
//
// The same schedules find the errors of weaker schemes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>
#include "pure/random.hpp"

namespace {

enum class Scheme {
  right,
  no_list,  // no list is stored
  // a change needs a majority of the new list, and not every master that was kept
  a_majority_kept,
  no_mark,           // a change writes the new list at once, master by master
  before_confirmed,  // the list is written with the vote
};

constexpr int most = 7;
using List = std::vector<int>;

struct Master {
  int key = 0;          // owner; 0: free
  int list = 0;         // 0: none known
  bool marked = false;  // a change from `list` has begun
};

enum class What { acquire, confirm, mark, write, give_back };
struct Message {
  What what;
  int owner, list, master;
  bool change;
};
struct Answer {
  int owner, master;
  What what;
  bool yes;
  int other = 0;  // a list other than ours
};

struct Client {
  int list = 0;
  bool change = false;
  enum class State { voting, confirming, marking, writing, holding, over } state = State::over;
  int owner = 0;
  std::set<int> votes, confirmed, marked, written;
  std::set<int> other;
};

class Model {
 public:
  Model(unsigned seed, Scheme scheme) : random_(seed), scheme_(scheme), storm_(1 + pick(4)) {
    // An old list, and a new one that keeps at least half of it and adds fewer masters than a
    // majority of it.
    const int old_size = 2 + pick(4);
    for (int i = 0; i < old_size; ++i) lists_[1].push_back(i);
    const int keep = (old_size + 1) / 2 + pick(old_size - (old_size + 1) / 2 + 1);
    for (int i = old_size - keep; i < old_size; ++i) lists_[2].push_back(i);
    const int fresh = std::min(most - old_size, pick(keep + 1));
    for (int i = 0; i < fresh; ++i) lists_[2].push_back(old_size + i);
    while (new_masters() >= majority(2)) lists_[2].pop_back();
    if (lists_[2] == lists_[1]) lists_[2].pop_back();
    if (scheme_ != Scheme::no_list)
      // from an earlier grant, when every master was up
      for (const int i : lists_[1]) all_[i].list = 1;
    clients_.resize(4);
    clients_[0].list = clients_[1].list = 1;
    clients_[2].list = 2;
    clients_[3].list = 2, clients_[3].change = true;
  }

  long overlaps = 0, grants = 0, changed = 0;

  void run(int steps) {
    for (; steps > 0; --steps) {
      ++clock_;
      while (!under_way_.empty() && under_way_.begin()->first <= clock_) {
        const Message g = under_way_.begin()->second;
        under_way_.erase(under_way_.begin());
        arrive(g);
      }
      while (!answers_.empty() && answers_.begin()->first <= clock_) {
        const Answer a = answers_.begin()->second;
        answers_.erase(answers_.begin());
        hear(a);
      }
      if (pick(3) == 0) expire();
      if (pick(60) == 0) {  // mostly the same client continues
        if (pick(8) != 0) give_up(clients_[turn_]);
        turn_ = static_cast<std::size_t>(pick(4));
      }
      decide(clients_[turn_]);
    }
  }

 private:
  int pick(int n) { return static_cast<int>(random_.below(static_cast<unsigned>(n))); }
  // Mostly soon, sometimes late, sometimes never.
  template <class M>
  void post(std::multimap<long, M>& way, const M& message) {
    const int how = pick(30);
    if (how < storm_) return;
    way.emplace(clock_ + 1 + pick(how < 3 * storm_ ? 800 : 4), message);
  }
  int majority(int list) const { return static_cast<int>(lists_[list].size()) / 2 + 1; }
  int new_masters() const {
    return static_cast<int>(std::count_if(lists_[2].begin(), lists_[2].end(), [&](int i) {
      return std::find(lists_[1].begin(), lists_[1].end(), i) == lists_[1].end();
    }));
  }

  void send(What what, const Client& c, const std::vector<int>& to) {
    for (const int i : to) post(under_way_, Message{what, c.owner, c.list, i, c.change});
  }

  // acquire, confirm, list and release of redlock.lua
  void arrive(const Message& g) {
    Master& m = all_[g.master];
    Answer a{g.owner, g.master, g.what, false};
    switch (g.what) {
      case What::acquire:
        if (m.list != 0 && (m.list != g.list || m.marked)) a.other = m.list;
        if (a.other == 0 || g.change) a.yes = m.key == 0;
        if (a.yes) m.key = g.owner;
        if (a.yes && scheme_ == Scheme::before_confirmed) m.list = g.list, m.marked = false;
        break;
      case What::confirm: a.yes = m.key == g.owner; break;
      case What::mark:
        a.yes = m.key == g.owner;
        if (a.yes && m.list != 0 && m.list != g.list) m.marked = true;
        break;
      case What::write:
        a.yes = m.key == g.owner;
        if (scheme_ == Scheme::no_list) break;
        if (a.yes) m.list = g.list, m.marked = false;
        break;
      case What::give_back:
        if (m.key == g.owner) m.key = 0;
        return;
    }
    post(answers_, a);
  }

  void hear(const Answer& a) {
    for (Client& c : clients_) {
      if (c.owner != a.owner) continue;
      if (a.what == What::acquire && c.state == Client::State::voting) {
        if (a.other != 0) c.other.insert(a.other);
        if (a.yes) c.votes.insert(a.master);
      }
      if (!a.yes) continue;
      if (a.what == What::confirm) c.confirmed.insert(a.master);
      if (a.what == What::mark) c.marked.insert(a.master);
      if (a.what == What::write) c.written.insert(a.master);
    }
  }

  // Votes of clients that died or gave up end at any time; other votes do not.
  void expire() {
    Master& m = all_[pick(most)];
    for (const Client& c : clients_)
      if (c.owner == m.key && c.state != Client::State::over) return;
    m.key = 0;
  }

  // The masters of our list that were also on the other lists reported.
  std::set<int> kept(const Client& c) const {
    std::set<int> both;
    for (const int old : c.other)
      for (const int i : lists_[old])
        if (std::find(lists_[c.list].begin(), lists_[c.list].end(), i) != lists_[c.list].end())
          both.insert(i);
    return both;
  }
  bool enough(const Client& c, const std::set<int>& yes) const {
    if (static_cast<int>(yes.size()) < majority(c.list)) return false;
    const auto all = kept(c);
    return scheme_ == Scheme::a_majority_kept ||
           std::includes(yes.begin(), yes.end(), all.begin(), all.end());
  }

  void decide(Client& c) {
    const auto& list = lists_[c.list];
    switch (c.state) {
      case Client::State::over:
        c.owner = ++owners_;
        c.votes.clear(), c.confirmed.clear(), c.marked.clear(), c.written.clear(), c.other.clear();
        c.state = Client::State::voting;
        send(What::acquire, c, list);
        return;
      case Client::State::voting:
        if ((c.other.empty() || c.change) && enough(c, c.votes)) {
          c.state = Client::State::confirming;
          return send(What::confirm, c, list);
        }
        break;
      case Client::State::confirming:
        if (enough(c, c.confirmed)) {
          if (c.other.empty()) {
            grant(c);
            return send(What::write, c, list);
          }
          c.state = scheme_ == Scheme::no_mark ? Client::State::writing : Client::State::marking;
          return send(scheme_ == Scheme::no_mark ? What::write : What::mark, c, list);
        }
        break;
      case Client::State::marking:
        if (enough(c, c.marked)) {
          c.state = Client::State::writing;
          return send(What::write, c, list);
        }
        break;
      case Client::State::writing:
        if (enough(c, c.written)) {
          ++changed;
          return grant(c);
        }
        break;
      case Client::State::holding: break;
    }
    if (pick(c.state == Client::State::holding ? 20 : 50) == 0) give_up(c);
  }

  // Or it is done, and releases; or it dies.
  void give_up(Client& c) {
    if (c.state == Client::State::over) return;
    c.state = Client::State::over;
    if (pick(10) < 7) send(What::give_back, c, lists_[c.list]);
  }

  void grant(Client& c) {
    for (const Client& other : clients_) overlaps += other.state == Client::State::holding;
    c.state = Client::State::holding;
    ++grants;
  }

  dlock::test::Random random_;
  const Scheme scheme_;
  List lists_[3];
  Master all_[most];
  std::vector<Client> clients_;
  std::multimap<long, Message> under_way_;
  std::multimap<long, Answer> answers_;
  long clock_ = 0;
  int owners_ = 0;
  std::size_t turn_ = 0;
  const int storm_;
};

struct Found {
  unsigned schedules = 0;
  long grants = 0, changed = 0, overlaps = 0;
};

Found search(Scheme scheme, unsigned schedules, bool first_only = false) {
  Found found;
  for (unsigned seed = 1; seed <= schedules; ++seed) {
    Model model{seed, scheme};
    model.run(1000);
    found.grants += model.grants;
    found.changed += model.changed;
    found.overlaps += model.overlaps;
    found.schedules = seed;
    if (first_only && found.overlaps > 0) break;
  }
  return found;
}

}  // namespace

TEST_CASE("lists of Redlock: no two grants at once while the list is changed") {
  const char* more = std::getenv("DLOCK_TEST_SCHEDULES");
  const unsigned schedules = more ? static_cast<unsigned>(std::atoi(more)) : 5'000;
  const Found found = search(Scheme::right, schedules);
  CHECK(found.grants > schedules);
  CHECK(found.changed > schedules / 20);
  CHECK(found.overlaps == 0);
  WARN(schedules << " schedules: " << found.grants << " grants, " << found.changed << " changes, "
                 << found.overlaps << " overlaps");
}

TEST_CASE("lists of Redlock: weaker schemes are found out") {
  for (const auto& [name, scheme] :
       {std::pair{"no list is kept", Scheme::no_list},
        std::pair{"a change with a majority, not with all that were kept", Scheme::a_majority_kept},
        std::pair{"a change without marks", Scheme::no_mark},
        std::pair{"a list written with the vote", Scheme::before_confirmed}}) {
    const Found found = search(scheme, 60'000, true);
    CAPTURE(name, found.grants);
    CHECK(found.overlaps > 0);
    WARN(name << ": caught in schedule " << found.schedules << " (" << found.grants << " grants)");
  }
}
