// SPDX-License-Identifier: Apache-2.0
#include "tree_run.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include "fixture.hpp"
#include "support/process.hpp"
#include "support/pty.hpp"
#include "support/status_events.hpp"

namespace dlock::test {
namespace {

// The calling thread goes before all others, where it may: the moment of a death is when it
// happens, and not when busy processes let this program see it.
class Urgent {
 public:
  Urgent() { set(SCHED_RR | SCHED_RESET_ON_FORK, 1); }
  ~Urgent() { set(SCHED_OTHER, 0); }

 private:
  static void set(int policy, int priority) {
    const sched_param p{.sched_priority = priority};
    ::sched_setscheduler(0, policy, &p);
  }
};

constexpr double patience = 30;  // for steps without a bound of their own

class TreeRun {
 public:
  TreeRun(const Programs& p, const Cell& c, double ttl, double jitter)
      : programs_(p),
        cell_(c),
        ttl_(c.ttl > 0 ? c.ttl : ttl),
        jitter_(jitter),
        fifo_(dir_ / "tree"),
        tree_(make_fifo(fifo_)) {
    static std::atomic<int> number{0};
    mark_ = std::to_string(::getpid()) + "." + std::to_string(++number);
  }
  ~TreeRun() {
    kill_carriers("DLOCK_TEST_CELL", mark_);
    kill_carriers("DLOCK_TEST_TREE", fifo_);
  }

  Seen go() {
    start();
    if (const auto line = tree_.next(patience); !line || line->rfind("complete ", 0) != 0) {
      wrong("the tree did not come up; dlock: " + describe(dlock_->wait(0)) + "; " +
            read_file(dir_ / "err"));
      return seen_;
    }
    find_guard();
    queue_waiter();
    ::poll(nullptr, 0, int(jitter_ * 1000));
    if (seen_.wrong.empty()) {
      inject();
      if (cell_.fault == Fault::hits) await_next();
      else await_death();
    }
    if (!seen_.wrong.empty())
      wrong("stderr was: " + read_file(dir_ / "err") + "events were:\n" +
            read_file(dir_ / "status"));
    return seen_;
  }

 private:
  static Fd make_fifo(const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) != 0) give_up("mkfifo " + path);
    return Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  // The cgroup that the guard may have made for the job; empty: none.
  static std::string cgroup_of(pid_t guard) {
    const std::string ours = read_file("/proc/self/cgroup");
    const auto line = ours.find("0::/");
    if (line == ours.npos) return {};
    const std::string path = ours.substr(line + 3, ours.find('\n', line) - line - 3);
    struct stat space {};
    if (::stat("/proc/self/ns/pid", &space) != 0) return {};
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const std::string cgroup =
          mount + path + "/dlock-" + std::to_string(guard) + "-" + std::to_string(space.st_ino);
      if (::access(cgroup.c_str(), F_OK) == 0) return cgroup;
    }
    return {};
  }
  void wrong(const std::string& what) { seen_.wrong.push_back(what); }

  std::vector<std::string> command(const std::string& key, std::vector<std::string> options) const {
    const bool fake = cell_.leased() && !cell_.on_server();
    std::vector<std::string> argv{fake ? programs_.dlock_fake : programs_.dlock, "run", "--key",
                                  key, "-b"};
    argv.push_back(cell_.on_server() ? server_->url + "?restart_grace=0"
                   : fake            ? std::string("fake:?") + cell_.backend
                                     : "file:" + (dir_ / "locks") + (cell_.backend + 4));
    argv.insert(argv.end(), options.begin(), options.end());
    argv.push_back("--");
    return argv;
  }

  void start() {
    if (cell_.on_server()) {
      if (auto started = start_fixture("redis", dir_ / "server"))
        server_.emplace(std::move(*started));
      else give_up("no server of Redis");
    }
    Spawn s;
    s.argv = command("tree", {"--ttl", std::to_string(int(ttl_ * 1000)) + "ms", "--status",
                              dir_ / "status", "--trace", dir_ / "trace"});
    if (cell_.fault == Fault::hits) s.argv.insert(s.argv.end() - 1, {"-k", "300ms"});
    else if (!cell_.leased()) s.argv.insert(s.argv.end() - 1, {"-k", "1s"});
    if (cell_.fault == Fault::kill_outer) {
      const auto inner = command("inner", {"--ttl", std::to_string(int(ttl_ * 1000)) + "ms"});
      s.argv.insert(s.argv.end(), inner.begin(), inner.end());
    }
    s.argv.push_back(programs_.tree);
    s.argv.push_back(fifo_);
    s.env = {{"DLOCK_TEST_CELL", mark_}};
    s.place = Spawn::Place::own_session;  // so that the terminal of the test run is not found
    ::mkdir((dir_ / "locks").c_str(), 0700);
    const Fd err(::open((dir_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    s.fds = {{2, err.get()}};
    if (cell_.terminal) {
      s.tty = pty_.slave.get();
    } else {
      s.fds.insert(s.fds.end(), {{0, null.get()}, {1, null.get()}});
    }
    dlock_.emplace(Process::start(s));
    pty_.close_slave();
  }

  void find_guard() {
    const auto children = children_of(dlock_->pid());
    if (children.size() == 1) guard_ = children[0];
    else
      wrong("dlock has " + std::to_string(children.size()) + " children, expected one: the guard");
  }

  std::vector<std::string> ttl() const {
    if (!cell_.leased()) return {};
    return {"--ttl", std::to_string(int(ttl_ * 1000)) + "ms"};
  }

  // On `file`, and under Fault::hits, a second contender waits for the key, and counts living
  // members as soon as it has the lock.
  void queue_waiter() {
    if (cell_.leased() && cell_.fault != Fault::hits) return;
    Pipe status, out;
    Spawn s;
    s.argv = command("tree", {"-q", "--status", "9"});
    const auto lease = ttl();
    s.argv.insert(s.argv.end() - 1, lease.begin(), lease.end());
    s.argv.insert(s.argv.end(), {programs_.tree, "--count", fifo_});
    s.env = {{"DLOCK_TEST_CELL", mark_}};
    s.place = Spawn::Place::own_session;
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    s.fds = {{0, null.get()}, {1, out.write_end.get()}, {9, status.write_end.get()}};
    waiter_.emplace(Process::start(s));
    waiter_out_.emplace(std::move(out.read_end));
    waiter_events_.emplace(std::move(status.read_end));
    out.write_end.reset(), status.write_end.reset();
    if (!waiter_events_->wait("waiting", patience))
      wrong("the second contender is not waiting; " + describe(waiter_->wait(0)));
  }

  void inject() {
    fault_at_ = boot_now();
    switch (cell_.fault) {
      case Fault::backend: break;
      case Fault::term: dlock_->signal(SIGTERM); break;
      case Fault::kill_outer:
      case Fault::kill: dlock_->signal(SIGKILL); break;
      case Fault::stop: dlock_->signal(SIGSTOP); break;
      case Fault::kill_guard: ::kill(guard_, SIGKILL); break;
      case Fault::stop_guard: ::kill(guard_, SIGSTOP); break;
      case Fault::kill_frozen: frozen_.emplace(guard_), dlock_->signal(SIGKILL); break;
      case Fault::freeze: ::kill(server_->server(), SIGSTOP); break;
      case Fault::stop_guard_term: ::kill(guard_, SIGSTOP), dlock_->signal(SIGTERM); break;
      case Fault::hits: hit(); break;
    }
    if (cell_.fault == Fault::stop && !cell_.leased()) outlive_stop();
    if (cell_.fault == Fault::kill_frozen) outlive_dlock();
  }

  void hit() {
    for (std::size_t i = 0; i < cell_.hits.size(); ++i) {
      if (i > 0 && cell_.gap_ms > 0) ::poll(nullptr, 0, cell_.gap_ms);
      const Hit& h = cell_.hits[i];
      ::kill(h.target == Target::dlock ? dlock_->pid() : guard_, h.signal);
    }
  }

  // The second contender finds no member alive, also where it is granted only once both go on.
  void await_next() {
    const bool both_killed =
        cell_.hits.size() == 2 && std::all_of(cell_.hits.begin(), cell_.hits.end(),
                                              [](const Hit& h) { return h.signal == SIGKILL; });
    auto count = waiter_out_->next(both_killed ? patience : cell_.leased() ? ttl_ + 2 : 1);
    const bool at_once = count.has_value();
    if (!at_once) {  // the lock is still held
      dlock_->signal(SIGCONT), ::kill(guard_, SIGCONT), dlock_->signal(SIGTERM);
      count = waiter_out_->next(patience);
    }
    if (!count) return wrong("the next one never got the lock");
    seen_.survivors = std::stoul(*count);
    if (seen_.survivors > 0 && !(at_once && cell_.may_survive))
      wrong("the next holder found " + *count + " living members");
    seen_.end = at_once ? "granted" : "held";
  }

  // An attached holder of `file` has no deadline: a stopped dlock keeps the lock and the job, and
  // continues later.
  void outlive_stop() {
    if (tree_.wait_end(ttl_ + 0.5)) wrong("the tree died although dlock was only stopped");
    if (waiter_->wait(0))
      wrong("the second contender got the lock although dlock was only stopped");
    dlock_->signal(SIGCONT);
    if (tree_.wait_end(0.2)) wrong("the tree died when dlock was continued");
    fault_at_ = boot_now();
    dlock_->signal(SIGTERM);
  }

  // The lock ends with the last process that has its descriptor, and the guard has it too.
  void outlive_dlock() {
    if (waiter_->wait(1))
      wrong("the second contender got the lock while the guard had a living tree");
    if (tree_.wait_end(0)) wrong("the tree died although its guard was frozen");
    fault_at_ = boot_now();
    frozen_.reset();
  }

  void await_death() {
    const bool dead = [&] {
      const Urgent watch;
      return tree_.wait_end(ttl_ + patience);
    }();
    seen_.survivors = carriers("DLOCK_TEST_TREE", fifo_).size();
    if (!dead) wrong("the tree lived on");
    if (dead && seen_.survivors > 0) wrong("members that have let go of the FIFO are left");
    if (cell_.fault == Fault::stop && cell_.leased()) dlock_->signal(SIGCONT);

    const auto status = dlock_->wait(patience);
    seen_.end = describe(status);
    if (std::count(cell_.ends.begin(), cell_.ends.end(), seen_.end) == 0)
      wrong("dlock ended with " + seen_.end);
    if (dead) measure(tree_.ended_at());
    if (waiter_) await_waiter();
    for (pid_t pid : carriers_after("DLOCK_TEST_CELL", mark_, 5))
      wrong("left behind: " + command_line(pid));
    if (const auto cgroup = cgroup_of(guard_); !cgroup.empty()) wrong("left behind: " + cgroup);
  }

  // The lease in force when the last member died: its deadline is that of the last confirmation
  // before that.
  void measure(double dead_at) {
    std::optional<Grant> last;
    for (const Grant& g : grants_in(read_file(dir_ / "trace")))
      if (g.t <= dead_at) last = g;
    if (cell_.leased() && !last) return wrong("no deadline in the history");
    // then the store's last confirmation counts
    const bool silent = cell_.fault == Fault::backend || cell_.fault == Fault::stop_guard;
    seen_.dead_after = dead_at - (silent ? last->t : fault_at_);
    if (!cell_.leased()) return;
    seen_.slack = last->deadline - dead_at;
    if (cell_.ttl > 0 && cell_.fault == Fault::kill && *seen_.slack < cell_.ttl / 2)
      wrong("the tree ended only with the lease");
    if (*seen_.slack <= 0) wrong("dead " + std::to_string(-*seen_.slack) + " s after the deadline");
  }

  void await_waiter() {
    const auto count = waiter_out_->next(patience);
    if (count != "0")
      wrong("the next holder found " + count.value_or("nothing, it did not start:") +
            " living members");
    if (describe(waiter_->wait(patience)) != "exit 0")
      wrong("the next holder ended with " + describe(waiter_->wait(0)));
  }

  const Programs& programs_;
  const Cell& cell_;
  const double ttl_, jitter_;
  TempDir dir_;
  const std::string fifo_;
  Lines tree_;
  Pty pty_;
  std::string mark_;
  std::optional<Fixture> server_;
  std::optional<Process> dlock_, waiter_;
  std::optional<Lines> waiter_out_;
  std::optional<EventStream> waiter_events_;
  pid_t guard_ = 0;
  std::optional<Frozen> frozen_;
  double fault_at_ = 0;
  Seen seen_;
};

}  // namespace

Seen run_tree(const Programs& programs, const Cell& cell, double ttl, double jitter) {
  return TreeRun(programs, cell, ttl, jitter).go();
}

}  // namespace dlock::test
