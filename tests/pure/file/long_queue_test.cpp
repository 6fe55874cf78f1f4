// SPDX-License-Identifier: Apache-2.0
// A queue of which most waiters are in the tail of the state file: the same answers as one that is
// loaded whole, whatever write a process is killed in, and for a reader without the lock.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include "file/lease/state_file.hpp"
#include "pure/random.hpp"
#include "support/repeated.hpp"
#include "support/temp_dir.hpp"

using namespace dlock;
using namespace dlock::file;
using namespace dlock::test;

namespace {

constexpr Duration patience{5'000'000};
constexpr Micros claim = 5;
// The slot is full with two waiters, and lines are written again all the time.
constexpr QueueLimits few{.waiters = 2, .bytes = 400, .gone = 2, .free = 0};

bool same(const LockState::Answer& a, const LockState::Answer& b) {
  if (a.index() != b.index()) return false;
  if (const auto* g = std::get_if<LockState::Granted>(&a)) {
    const auto& o = std::get<LockState::Granted>(b);
    return g->token == o.token && g->ticket == o.ticket && g->slot == o.slot;
  }
  if (const auto* w = std::get_if<LockState::Waiting>(&a)) {
    const auto& o = std::get<LockState::Waiting>(b);
    return w->rank == o.rank && w->free_at == o.free_at;
  }
  return std::get<LockState::Busy>(a).free_at == std::get<LockState::Busy>(b).free_at;
}

// What a change does, as KeyStore does it.
struct Change {
  enum class What { acquire, cancel, release, vanish, force } what = What::acquire;
  LockState::Acquisition ask;
  std::uint64_t ticket = 0;
  bool fresh = false;  // its owner has never asked

  bool needs_owner() const { return what == What::acquire || what == What::cancel; }
  std::optional<LockState::Answer> apply(LockState& s, Micros now) const {
    switch (what) {
      case What::acquire: return s.acquire(ask, now);
      case What::cancel: s.cancel(ask.owner); break;
      case What::release: s.release(ask.owner, now); break;
      case What::vanish: s.vanish(ticket, now); break;
      case What::force: s.force_release(0); break;
    }
    return std::nullopt;
  }
};

class Stored {
 public:
  explicit Stored(const std::string& dir, const QueueLimits& limits = few)
      : directory_(dir, "", Directory::Make::all, true), file_(directory_, "k", limits) {}

  KeyRecord begin() {
    REQUIRE(file_.lock(Make::all, patience, -1).value() == StateFile::Locking::locked);
    auto loaded = file_.load();
    REQUIRE(loaded);
    loaded->record.key = "k";
    loaded->record.boot = "b";
    return std::move(loaded->record);
  }
  // The answer, and those invited.
  std::pair<std::optional<LockState::Answer>, std::vector<std::uint64_t>> change(const Change& c,
                                                                                 Micros now) {
    KeyRecord record = begin();
    LockState& s = record.state;
    const bool known = c.needs_owner() && s.rank_of(c.ask.owner) < s.waiters.size();
    const bool first = std::any_of(s.waiters.begin(), s.waiters.end(),
                                   [&](const auto& w) { return w.ticket == c.ticket; });
    auto answer = join(record, c, now);
    if (!answer) {
      if ((c.needs_owner() && !known) || (c.what == Change::What::vanish && !first))
        REQUIRE(file_.load_tail(record));
      answer = c.apply(s, now);
    }
    const auto invited = file_.invite(record, now, claim).value();
    if (with_hash) {
      REQUIRE(file_.load_tail(record));
      record.boot = hash_of(s);
    }
    REQUIRE(file_.commit(record));
    file_.unlock();
    return {answer, invited};
  }
  // As LeaseWaiter::join.
  std::optional<LockState::Answer> join(KeyRecord& record, const Change& c, Micros now) {
    LockState& s = record.state;
    if (!c.fresh || with_hash || c.ask.mode != Mode::exclusive) return std::nullopt;
    s.expire(now);
    const auto last = file_.last_in_tail(record, now);
    if (!last) return std::nullopt;
    ++joined;
    seen_last = *last;
    if (!c.ask.wait) return LockState::Busy{s.free_at()};
    const std::size_t rank = s.waiters.size() + record.tail.lines - record.tail.gone.size();
    record.joins = LockState::Waiter{c.ask.owner, c.ask.mode, c.ask.limit, s.next_ticket++,
                                     never,       false,      c.ask.meta};
    return LockState::Waiting{rank, s.free_at()};
  }
  std::optional<LockState> seen() {
    auto record = file_.peek(StateFile::Depth::waiters);
    if (!record) FAIL(record.error().message);
    return *record ? std::optional{(*record)->state} : std::nullopt;
  }
  static std::string hash_of(const LockState& s) {
    std::uint64_t hash = s.next_ticket;
    for (const auto& w : s.waiters) hash = hash * 1099511628211U ^ w.ticket;
    return fmt::format("{:x}", hash);
  }
  StateFile& file() { return file_; }
  bool with_hash = false;
  int joined = 0;  // behind a tail that was not loaded
  std::uint64_t seen_last = 0;

 private:
  Directory directory_;
  StateFile file_;
};

// A random history, played to the file and to a value.
class Story {
 public:
  explicit Story(Random& random) : random_(random) {}
  LockState model;
  Micros now = 1;

  Change next(std::size_t longest) {
    Change c;
    now += static_cast<Micros>(random_.below(3));
    const auto& w = model.waiters;
    const auto& h = model.holders;
    const auto any = [&](const auto& of) { return of[random_.below(of.size())]; };
    const std::uint64_t dice = random_.below(20);
    if (dice < 8 && w.size() < longest) {
      c.fresh = random_.one_in(2);
      c.ask.owner = Owner::random();
      constexpr Mode modes[] = {Mode::exclusive, Mode::exclusive, Mode::shared, Mode::permit};
      c.ask.mode = modes[random_.below(4)];
      if (c.ask.mode == Mode::permit) c.ask.limit = 1 + static_cast<unsigned>(random_.below(3));
      c.ask.delay = random_.one_in(4) ? 3 : 0;
      c.ask.wait = !random_.one_in(6);
      c.ask.meta = std::string(random_.one_in(30) ? 3000 : random_.below(200), 'm');
    } else if (dice < 13 && !w.empty()) {
      // mostly one of the first
      const auto& chosen = w[random_.below(random_.below(w.size()) + 1)];
      c.ask = {.owner = chosen.owner, .mode = chosen.mode, .limit = chosen.limit};
    } else if (dice < 15 && !w.empty()) {
      c.what = Change::What::cancel;
      c.ask.owner = any(w).owner;
    } else if (dice < 16 && !w.empty()) {
      c.what = Change::What::vanish;
      c.ticket = any(w).ticket;
    } else if (dice < 19 && !h.empty()) {
      c.what = Change::What::release;
      c.ask.owner = any(h).owner;
    } else if (!h.empty()) {
      c.what = random_.one_in(2) ? Change::What::force : Change::What::vanish;
      c.ticket = any(h).ticket;
    } else {
      c.ask.owner = Owner::random();
    }
    return c;
  }
  void play(Stored& key, const Change& c) {
    key.seen_last = 0;
    const auto [answer, invited] = key.change(c, now);
    if (key.seen_last != 0) REQUIRE(key.seen_last == model.waiters.back().ticket);
    const auto expected = c.apply(model, now);
    REQUIRE(answer.has_value() == expected.has_value());
    if (answer) REQUIRE(same(*answer, *expected));
    REQUIRE(invited == model.invite(now, claim));
  }

 private:
  Random& random_;
};

constexpr std::size_t longest_slot = 64 << 10;

// The parts of a state file that are used here.
struct Image {
  std::string slots[2], tail;
};
std::string part(int fd, off_t at, std::size_t size) {
  std::string text(size, '\0');
  const ssize_t n = ::pread(fd, text.data(), size, at);
  REQUIRE(n >= 0);
  return text;
}
Image image_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  return {{part(file.get(), 0, longest_slot), part(file.get(), slot_size, longest_slot)},
          part(file.get(), tail_at, 2 * longest_slot)};
}
void write_image(const std::string& path, const Image& image) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(file);
  const auto put = [&](const std::string& text, off_t at) {
    REQUIRE(::pwrite(file.get(), text.data(), text.size(), at) ==
            static_cast<ssize_t>(text.size()));
  };
  put(image.slots[0], 0);
  put(image.slots[1], slot_size);
  put(image.tail, tail_at);
}
std::string begun(const std::string& before, const std::string& after, std::size_t bytes) {
  return after.substr(0, bytes) + before.substr(bytes);
}

std::string header_of(const std::string& path) {
  const Image i = image_of(path);
  const Header a = parse_header(i.slots[0].substr(0, header_size)),
               b = parse_header(i.slots[1].substr(0, header_size));
  return i.slots[a.seq > b.seq ? 0 : 1].substr(0, 6);
}

}  // namespace

TEST_CASE("a queue with a tail gives the answers of one that is loaded whole") {
  Random random(seed());
  int joined = 0;
  for (int round = 0; round < repeated(40); ++round) {
    const TempDir dir;
    const QueueLimits limits = random.one_in(2) ? few : QueueLimits{.waiters = 4, .gone = 5};
    Stored key(dir.path(), limits), other(dir.path(), limits);
    Story story(random);
    for (int i = 0; i < 200; ++i) {
      story.play(random.one_in(2) ? key : other, story.next(40));
      REQUIRE(key.seen() == story.model);
    }
    joined += key.joined + other.joined;
  }
  CHECK(joined > repeated(40));
}

TEST_CASE("killed at any byte of any write: the state before the change, or after it") {
  Random random(seed());
  int torn = 0;
  for (int round = 0; round < repeated(20); ++round) {
    const TempDir dir, copy;
    REQUIRE(::mkdir((copy / "k").c_str(), 0700) == 0);
    Stored key(dir.path());
    Story story(random);
    story.play(key, story.next(30));
    for (int i = 0; i < 60; ++i) {
      const LockState model_before = story.model;
      const Image before = image_of(dir / "k/state");
      const Change c = story.next(30);
      story.play(key, c);
      const Image after = image_of(dir / "k/state");
      for (int cut = 0; cut < 6; ++cut) {
        Image halfway = before;
        const bool in_tail = cut < 3;
        halfway.tail = begun(before.tail, after.tail,
                             in_tail ? random.below(after.tail.size()) : after.tail.size());
        const int slot = before.slots[0] == after.slots[0] ? 1 : 0;
        if (!in_tail)
          halfway.slots[slot] =
              begun(before.slots[slot], after.slots[slot],
                    cut == 5 ? longest_slot : random.below(random.one_in(2) ? header_size : 2000));
        write_image(copy / "k/state", halfway);
        Stored restarted(copy.path());
        const auto seen = restarted.seen();
        INFO("round " << round << ", change " << i << ", cut " << cut);
        REQUIRE((seen == model_before || seen == story.model));
        if (in_tail) REQUIRE(seen == model_before);
        if (cut == 5) REQUIRE(seen == story.model);
        torn += seen == model_before && cut < 5;
        // The next change finds that state, too, and nothing of the one that was begun.
        Story next(random);
        next.model = *seen;
        next.now = story.now;
        for (int more = 0; more < 3; ++more) {
          next.play(restarted, next.next(30));
          REQUIRE(restarted.seen() == next.model);
        }
        REQUIRE(::unlink((copy / "k/state").c_str()) == 0);
      }
    }
  }
  CHECK(torn > repeated(1000));
}

TEST_CASE("a reader without the lock sees one state, whatever is being written") {
  const TempDir dir;
  Random random(seed());
  Stored key(dir.path());
  key.with_hash = true;
  Story story(random);
  while (story.model.waiters.size() < 20) story.play(key, story.next(30));
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    for (;;) {
      const Change c = story.next(30);
      key.change(c, story.now);
      c.apply(story.model, story.now);
      story.model.invite(story.now, claim);
    }
  }
  const Directory directory(dir.path(), "", Directory::Make::nothing, true);
  StateFile file(directory, "k", few);
  std::size_t changes = 0;
  bool consistent = true;
  std::string last, error;
  const Deadline end = later(Clock::now(), Duration{60'000'000});
  for (int i = 0; (i < 3000 || changes < 100) && Clock::now() < end; ++i) {
    const auto record = file.peek(StateFile::Depth::waiters);
    consistent = record && *record && (*record)->boot == Stored::hash_of((*record)->state);
    if (!record) error = record.error().message;
    if (!consistent) break;
    changes += (*record)->boot != last;
    last = (*record)->boot;
  }
  ::kill(writer, SIGKILL);
  int status = 0;
  ::waitpid(writer, &status, 0);
  INFO(error);
  CHECK(WIFSIGNALED(status));
  CHECK(consistent);
  CHECK(changes >= 100);
}

TEST_CASE("a long queue goes behind the slots, which stay one page each") {
  const TempDir dir;
  Stored key(dir.path(), {});
  const std::string state = dir / "k/state";
  std::vector<Owner> owners;
  const auto ask = [&](const Owner& owner) {
    return Change{Change::What::acquire, {.owner = owner, .meta = std::string(90, 'm')}, 0};
  };
  for (int i = 0; i < 300; ++i) {
    owners.push_back(Owner::random());
    key.change(ask(owners.back()), 1);
  }
  CHECK(key.seen()->waiters.size() == 299);
  for (std::size_t i = 0; i + 1 < owners.size(); ++i) {
    key.change({Change::What::release, {.owner = owners[i]}, 0}, 1);
    const auto [answer, invited] = key.change(ask(owners[i + 1]), 1);
    REQUIRE(answer);
    REQUIRE(std::holds_alternative<LockState::Granted>(*answer));
  }
  CHECK(header_of(state) == "dlock1");
  for (const std::string& slot : image_of(state).slots) CHECK(slot.find_last_not_of('\0') < 4096);
  CHECK(key.seen()->waiters.empty());
}

TEST_CASE("a queue that is never empty does not make the file grow") {
  const TempDir dir;
  Stored key(dir.path(), {});
  std::vector<Owner> owners;
  const auto come = [&] {
    owners.push_back(Owner::random());
    key.change({Change::What::acquire, {.owner = owners.back()}, 0}, 1);
  };
  for (int i = 0; i < 40; ++i) come();
  for (int i = 0; i < 3000; ++i) {
    come();
    if (i % 2) {  // a hand-off, or one in between gives up
      key.change({Change::What::release, {.owner = owners.front()}, 0}, 1);
      owners.erase(owners.begin());
      key.change({Change::What::acquire, {.owner = owners.front()}, 0}, 1);
    } else {
      key.change({Change::What::cancel, {.owner = owners[30]}, 0}, 1);
      owners.erase(owners.begin() + 30);
    }
  }
  CHECK(key.seen()->waiters.size() == 39);
  struct stat st {};
  REQUIRE(::stat((dir / "k/state").c_str(), &st) == 0);
  CHECK(st.st_size < tail_at + (256 << 10));
}
