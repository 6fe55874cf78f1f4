// SPDX-License-Identifier: Apache-2.0
// A run inside of another run's job, with another key: whoever is killed, the inner key is not
// granted while a member of the inner job lives, and no other process keeps it for long.
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <cstddef>
#include "guard_run.hpp"

using namespace dlock::test;
using dlock::Fd;

namespace {

struct Nested : Run {
  Fd gate;
  pid_t outer_guard = 0, inner_dlock = 0, inner_guard = 0, inner_job = 0;

  // The job of the outer run is a shell, which waits for `go`, and a member that outlives the inner
  // run.
  void begin(std::vector<std::string> options, const std::string& recipe = "lease",
             bool in_between = false) {
    std::string inner = "'" + program_from("DLOCK") + "'";
    if (in_between)
      inner +=
          " run -b 'file:" + (dir / "locks") + "' --recipe " + recipe + " --key outer -- " + inner;
    for (const char* word : {"run", "-b", "--recipe", "--key"}) {
      inner += std::string(" ") + word;
      if (std::string(word) == "-b") inner += " 'file:" + (dir / "locks") + "'";
      if (std::string(word) == "--recipe") inner += " " + recipe;
    }
    inner += " inner -- sh -c 'echo $$ > \"$0\"; exec sleep 60' '" + (dir / "job") + "'";
    options.insert(options.end(),
                   {"--recipe", recipe, "--key", "outer", "--", "sh", "-c",
                    "sleep 60 & read -r go < '" + (dir / "gate") + "'; " + inner + "; wait"});
    REQUIRE(::mkfifo((dir / "gate").c_str(), 0600) == 0);
    start(std::move(options));
    REQUIRE(events->wait("acquired", patience));
    outer_guard = guard();
    REQUIRE(until_true([&] {  // the job reads
      gate.reset(::open((dir / "gate").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      return static_cast<bool>(gate);
    }));
  }
  void go() {
    REQUIRE(::write(gate.get(), "go\n", 3) == 3);
    find_inner();
  }
  void find_inner() {
    const bool is_up = until_true([&] { return !read_file(dir / "job").empty(); });
    INFO(says());
    REQUIRE(is_up);
    inner_job = std::stoi(read_file(dir / "job"));
    inner_guard = parent_of(inner_job);
    inner_dlock = parent_of(inner_guard);
    REQUIRE(command_line(inner_guard).starts_with("lock-guard"));
  }
  static pid_t parent_of(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return std::stoi(stat.substr(stat.rfind(')') + 4));
  }
  // dlock is stopped first, so none of the two gives the lock back.
  void kill_inner_parties() const {
    ::kill(inner_dlock, SIGSTOP);
    REQUIRE(until_true([&] { return state_of(inner_dlock) == 'T'; }));
    for (const pid_t party : {inner_guard, inner_dlock}) {
      ::kill(party, SIGKILL);
      REQUIRE(until_true([&] { return !alive(party); }));
    }
  }
  // The id of the outer run, as the inner job has it.
  std::string outer_run() const {
    std::string runs;  // none during an exec
    REQUIRE(until_true([&] {
      runs = read_file("/proc/" + std::to_string(inner_job) + "/environ");
      return runs.find("DLOCK_RUNS=") != runs.npos;
    }));
    const auto from = runs.find("DLOCK_RUNS=") + 11;
    return runs.substr(from, runs.find(':', from) - from);
  }
  static char state_of(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() ? 'X' : stat[stat.rfind(')') + 2];
  }
  bool is_granted(const std::string& key, const std::string& recipe = "lease") const {
    const Spawn s = spawn(command({"--recipe", recipe, "--key", key, "-n", "--", "true"}));
    Process p = Process::start(s);
    ::close(s.fds[2].second);
    const std::string end = describe(p.wait(patience));
    REQUIRE((end == "exit 0" || end == "exit 75"));
    return end == "exit 0";
  }
};

}  // namespace

// Traced, the inner job stays a member until its tracer lets it go. The inner guard does not.
TEST_CASE("nested: the inner key is held until the inner job is dead, however the outer one ends") {
  const std::string fault = GENERATE("dlock", "guard", "max-run", "dlock, out of descriptors",
                                     "dlock, above a run of its own key");
  const std::string recipe = GENERATE("lease", "flock");
  CAPTURE(fault, recipe);
  Nested it;
  it.begin(fault == "max-run" ? std::vector<std::string>{"--max-run", "3s", "-k", "0"}
                              : std::vector<std::string>{},
           recipe, fault == "dlock, above a run of its own key");
  if (fault == "dlock, out of descriptors") {
    rlimit none{0, 0};
    REQUIRE(::prlimit(it.outer_guard, RLIMIT_NOFILE, &none, nullptr) == 0);
  }
  it.go();
  Traced job(it.inner_job);
  if (fault.starts_with("dlock")) it.dlock->signal(SIGKILL);
  if (fault == "guard") ::kill(it.outer_guard, SIGKILL);
  REQUIRE(until_true([&] { return !alive(it.inner_guard) && !alive(it.inner_dlock); }));
  REQUIRE(until_true([&] { return job.is_zombie(); }));
  CHECK_FALSE(it.is_granted("inner", recipe));
  CHECK(job.killed());
  CHECK(until_true([&] { return it.is_granted("inner", recipe); }));
}

TEST_CASE(
    "nested: when the inner dlock is killed, the inner key is free and the outer job goes on") {
  Nested it;
  it.begin({});
  it.go();
  ::kill(it.inner_dlock, SIGKILL);
  CHECK(until_true([&] { return it.is_granted("inner"); }));
  CHECK(alive(it.outer_guard));
  CHECK_FALSE(it.is_granted("outer"));
  // as many as before: it keeps nothing of the inner run
  CHECK(until_true([&] { return !alive(it.inner_guard); }));
}

TEST_CASE("nested: when the inner guard is killed, the inner dlock gives the key back") {
  const std::string recipe = GENERATE("lease", "flock");
  Nested it;
  it.begin({}, recipe);
  it.go();
  ::kill(it.inner_guard, SIGKILL);
  CHECK(until_true([&] { return it.is_granted("inner", recipe); }));
  CHECK(alive(it.outer_guard));
}

// Nobody knows whether the inner job is dead: so the outer job has to be.
TEST_CASE("nested: without the inner dlock and guard the inner key is held until the outer end") {
  const bool stopped = GENERATE(false, true);
  CAPTURE(stopped);
  Nested it;
  it.begin({});
  if (stopped) {  // what the inner guard sends them stays in their sockets
    it.dlock->signal(SIGSTOP);
    REQUIRE(it.dlock->wait_stopped(patience));
    ::kill(it.outer_guard, SIGSTOP);
  }
  it.go();
  it.kill_inner_parties();
  CHECK_FALSE(it.is_granted("inner"));
  if (stopped) {
    ::kill(it.outer_guard, SIGCONT);
    it.dlock->signal(SIGCONT);
  }
  CHECK_FALSE(it.is_granted("inner"));
  it.dlock->signal(SIGTERM);
  CHECK(it.end() == "signal 15 (TERM)");
  CHECK(it.is_granted("inner"));
}

// What the inner guard sends a process that is stopped stays on its way, where the kernel counts it
// against all programs of this user.
TEST_CASE("nested: runs in the job of a stopped dlock begin and end, and their keys get free") {
  const bool guard_stops = GENERATE(false, true);
  CAPTURE(guard_stops);
  Nested it;
  it.begin({});
  it.dlock->signal(SIGSTOP);
  REQUIRE(it.dlock->wait_stopped(patience));
  if (guard_stops) ::kill(it.outer_guard, SIGSTOP);
  it.go();
  const std::string outer = it.outer_run();
  for (int i = 0; i < 12; ++i) {
    Spawn s = it.spawn(it.command({"--key", "other", "-n", "--", "true"}));
    s.env.emplace_back("DLOCK_RUNS", outer);
    Process p = Process::start(s);
    ::close(s.fds[2].second);
    CHECK(describe(p.wait(patience)) == "exit 0");
  }
  ::kill(it.inner_dlock, SIGKILL);
  CHECK(until_true([&] { return it.is_granted("inner"); }));
  ::kill(it.outer_guard, SIGCONT);
  it.dlock->signal(SIGCONT);
  it.dlock->signal(SIGTERM);
  CHECK(it.end() == "signal 15 (TERM)");
}

TEST_CASE("nested: runs that have ended leave no descriptor behind, at a low limit, too") {
  const rlim_t limit = GENERATE(rlim_t{20}, rlim_t{1024});
  CAPTURE(limit);
  Nested it;
  it.begin({});
  for (const pid_t p : {it.dlock->pid(), it.outer_guard}) {
    const rlimit few{limit, limit};
    REQUIRE(::prlimit(p, RLIMIT_NOFILE, &few, nullptr) == 0);
  }
  // The inner run hands over one descriptor, which may arrive later than its job begins.
  const auto at_dlock = descriptors(it.dlock->pid()) + 1,
             at_guard = descriptors(it.outer_guard) + 1;
  it.go();
  for (int i = 0; i < 80; ++i) {
    Spawn s = it.spawn(it.command({"--key", "other", "-n", "--", "true"}));
    s.env.emplace_back("DLOCK_RUNS", it.outer_run());
    Process p = Process::start(s);
    ::close(s.fds[2].second);
    REQUIRE(describe(p.wait(patience)) == "exit 0");
  }
  CHECK(until_true([&] { return descriptors(it.dlock->pid()) <= at_dlock; }));
  CHECK(until_true([&] { return descriptors(it.outer_guard) <= at_guard; }));
}

TEST_CASE("nested: another user who connects without end delays nothing") {
  if (::geteuid() != 0) {
    WARN("SKIPPED: another user needs root");
    return;
  }
  Run it;
  it.start({"--max-run", "1s", "-k", "0", "--key", "k", "--", "sleep", "60"});
  REQUIRE(it.events->wait("acquired", patience));
  std::vector<std::string> names;
  REQUIRE(until_true([&] {
    names.clear();
    const std::string all = read_file("/proc/net/unix");
    for (auto at = all.find("@dlock-run/"); at != all.npos; at = all.find("@dlock-run/", at + 1))
      names.push_back(all.substr(at + 1, all.find('\n', at) - at - 1));
    return names.size() >= 2;
  }));
  std::vector<pid_t> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(::fork());
    if (others.back() != 0) continue;
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    for (;;) {  // the wait of each turn is a blocking connect()
      for (const std::string& name : names) {
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        std::memcpy(to.sun_path + 1, name.data(), name.size());
        const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
      }
    }
  }
  CHECK(it.end() == "exit 124");
  for (const pid_t p : others) {
    ::kill(p, SIGKILL);
    ::waitpid(p, nullptr, 0);
  }
}

// dlock is PID 1 and had a child, whose pid a member of the job gets later.
TEST_CASE("a member of the job with the pid of an earlier child is killed with the job") {
  if (::geteuid() != 0) {
    WARN("SKIPPED: namespaces need root");
    return;
  }
  Run it;
  const auto argv = it.command({"--status", "9", "--key", "k", "--", "sh", "-c",
                                "touch '" + (it.dir / "end") +
                                    "'; while [ -e /proc/$0 ]; do sleep 0.05; done; "
                                    "for try in 1 2 3 4 5 6 7 8 9; do "
                                    "echo $(($0 - 1)) > /proc/sys/kernel/ns_last_pid; "
                                    "sleep 61 & [ $! != $0 ] || break; kill $!; done; "
                                    "echo $! $0 > '" +
                                    (it.dir / "pids") + "'; wait"});
  std::string line;
  for (const auto& word : argv) {
    line += '"';
    for (const char c : word)
      line += std::strchr("\"$\\", c) ? std::string("\\") + c : std::string{c};
    line += "\" ";
  }
  // the tmpfs: no cgroup may be created, which would kill all of its members
  it.start_as({"unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
               "mount -t tmpfs none /sys/fs/cgroup; "
               "sh -c 'until [ -e \"$0\" ]; do sleep 0.05; done' '" +
                   (it.dir / "end") + "' & exec " + line + " $!"});
  REQUIRE(it.events->wait("acquired", patience));
  REQUIRE(until_true([&] { return !read_file(it.dir / "pids").empty(); }));
  const std::string pids = read_file(it.dir / "pids");
  INFO("member and earlier child: " << pids << it.says());
  REQUIRE(pids.substr(0, pids.find(' ')) + '\n' == pids.substr(pids.find(' ') + 1));
  const auto only_child = [](pid_t p) {
    const auto children = children_of(p);
    REQUIRE(children.size() == 1);
    return children.front();
  };
  const pid_t first = only_child(it.dlock->pid()), guard = only_child(first);
  pid_t member = 0;
  REQUIRE(until_true([&] {  // its exec comes behind the fork
    for (const pid_t p : children_of(only_child(guard)))
      if (command_line(p).starts_with("sleep 61")) member = p;
    return member > 0;
  }));
  // so that dlock, whose end would kill all of the namespace, is busy with the release
  const Fd state(::open((it.dir / "locks/k/state").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(state.get(), LOCK_EX) == 0);
  ::kill(guard, SIGKILL);
  REQUIRE(it.events->wait("job_dead", patience));
  CHECK_FALSE(alive(member));
}
