// SPDX-License-Identifier: Apache-2.0
// What the guard does alone, and what dlock must not undo: a stopped dlock that continues, no free
// descriptor, many keys, earlier children.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "guard_run.hpp"

using namespace dlock::test;
using dlock::Fd;

namespace {

std::vector<std::string> keys(int n) {
  std::vector<std::string> options;
  for (int i = 0; i < n; ++i) {
    options.emplace_back("--key");
    options.push_back("k" + std::to_string(i));
  }
  return options;
}

}  // namespace

TEST_CASE("ps and pkill tell the guard from dlock") {
  Run it;
  it.start({"--key", "nightly", "--", "sleep", "60"});
  REQUIRE(it.events->wait("acquired", patience));
  const pid_t guard = it.guard();
  REQUIRE(until_true([&] { return command_line(guard).starts_with("lock-guard"); }));
  CHECK(read_file("/proc/" + std::to_string(guard) + "/cmdline") ==
        std::string("lock-guard: nightly\0", 20));  // does not match 'key nightly'
  CHECK(command_line(it.dlock->pid()).find("run -b") != std::string::npos);
  it.dlock->signal(SIGKILL);
  CHECK(until_true([&] { return !alive(guard); }));
}

// As a SIGSTOP that comes right behind the fork: the guard has not made a call yet.
TEST_CASE("a guard that is stopped from its start ends with dlock") {
  Run it;
  clean_environment();
  const auto argv = it.command({"--status", "9", "--key", "k", "--", "sleep", "60"});
  std::vector<char*> words;
  for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t dlock = ::fork();
  if (dlock == 0) {
    ::setsid();
    ::setenv("DLOCK_TEST_GUARD", (it.dir / "").c_str(), 1);
    ::dup2(it.status.write_end.get(), 9);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  it.status.write_end.reset();
  it.events.emplace(std::move(it.status.read_end));
  const auto stops = [&](pid_t pid) {
    int status = 0;
    return ::waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) ? status >> 8 : 0;
  };
  REQUIRE(stops(dlock) == SIGTRAP);  // its exec
  REQUIRE(::ptrace(PTRACE_SETOPTIONS, dlock, nullptr, PTRACE_O_TRACEFORK) == 0);
  REQUIRE(::ptrace(PTRACE_CONT, dlock, nullptr, nullptr) == 0);
  REQUIRE(stops(dlock) == (SIGTRAP | PTRACE_EVENT_FORK << 8));
  unsigned long guard = 0;
  REQUIRE(::ptrace(PTRACE_GETEVENTMSG, dlock, nullptr, &guard) == 0);
  const auto pid = static_cast<pid_t>(guard);
  REQUIRE(stops(pid) == SIGSTOP);
  REQUIRE(::ptrace(PTRACE_DETACH, pid, nullptr, SIGSTOP) == 0);
  REQUIRE(::ptrace(PTRACE_DETACH, dlock, nullptr, nullptr) == 0);
  CHECK(it.events->wait("acquired", patience));
  CHECK(alive(pid));
  ::kill(dlock, SIGKILL);
  CHECK(::waitpid(dlock, nullptr, 0) == dlock);
  CHECK(until_true([&] { return !alive(pid); }));
}

// As a SIGSTOP that comes right behind what dlock sends first.
TEST_CASE("a dlock that is stopped as it forwards TERM: the job ends in time all the same") {
  Run it;
  it.start({"--key", "k", "-k", "100ms", "--", "sh", "-c",
            "trap '' TERM; echo $$ > " + (it.dir / "job") + "; while :; do sleep 1; done"});
  REQUIRE(it.events->wait("acquired", patience));
  REQUIRE(until_true([&] { return !read_file(it.dir / "job").empty(); }));
  const pid_t dlock = it.dlock->pid(), job = std::stoi(read_file(it.dir / "job"));
  REQUIRE(::ptrace(PTRACE_SEIZE, dlock, nullptr, PTRACE_O_TRACESYSGOOD) == 0);
  REQUIRE(::ptrace(PTRACE_INTERRUPT, dlock, nullptr, nullptr) == 0);
  it.dlock->signal(SIGTERM);
  for (bool sends = false, sent = false; !sent;) {
    int status = 0;
    REQUIRE(::waitpid(dlock, &status, __WALL) == dlock);
    REQUIRE(WIFSTOPPED(status));
    __ptrace_syscall_info call{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, dlock, sizeof call, &call);
    sent = sends && call.op == PTRACE_SYSCALL_INFO_EXIT;
    sends |= call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_sendmsg;
    if (!sent) REQUIRE(::ptrace(PTRACE_SYSCALL, dlock, nullptr, nullptr) == 0);
  }
  CHECK(until_true([&] { return !alive(job); }));
  REQUIRE(::ptrace(PTRACE_DETACH, dlock, nullptr, nullptr) == 0);
  CHECK(it.end() == "signal 9 (KILL)");
}

TEST_CASE("a dlock that was stopped does not kill a working guard") {
  Run it;
  it.start({"--key", "k", "-k", "3s", "--", "sh", "-c",
            "trap 'echo $$ > " + (it.dir / "got") + "' TERM; echo $$ > " + (it.dir / "job") +
                "; while :; do sleep 1; done"});
  REQUIRE(it.events->wait("acquired", patience));
  const pid_t guard = it.guard();
  REQUIRE(until_true([&] { return !read_file(it.dir / "job").empty(); }));
  it.dlock->signal(SIGTERM);
  // so the guard has its deadline, too
  REQUIRE(until_true([&] { return !read_file(it.dir / "got").empty(); }));
  Traced job(std::stoi(read_file(it.dir / "job")));
  it.dlock->signal(SIGSTOP);
  REQUIRE(it.dlock->wait_stopped(patience));
  REQUIRE(until_true([&] { return job.is_zombie(); }));  // the guard has sent KILL, and waits
  // past the time at which dlock takes a silent guard for stuck
  ::poll(nullptr, 0, 1500);
  it.dlock->signal(SIGCONT);
  REQUIRE(it.events->wait("stuck", patience));  // dlock knows the guard's progress,
  CHECK(alive(guard));                          // and leaves it alone
  CHECK(job.killed());
  CHECK(it.end() == "signal 9 (KILL)");
  CHECK(it.says().find("the guard process died") == std::string::npos);
}

TEST_CASE("--max-run while dlock is stopped") {
  for (int seconds = 1;; seconds *= 2) {  // more, where a busy machine stops it too late
    REQUIRE(seconds < 30);
    Run it;
    it.start({"--key", "k", "--max-run", std::to_string(seconds), "-k", "200ms", "--", "sh", "-c",
              "trap '' TERM; echo $$ > " + (it.dir / "job") + "; while :; do sleep 1; done"});
    REQUIRE(it.events->wait("acquired", patience));
    const auto job = [&] { return read_file(it.dir / "job"); };
    REQUIRE(until_true([&] { return job().ends_with('\n') || it.dlock->wait(0); }));
    it.dlock->signal(SIGSTOP);
    if (!job().ends_with('\n') || !it.dlock->wait_stopped(1)) continue;
    CHECK(until_true([&] { return !alive(std::stoi(job())); }));
    it.dlock->signal(SIGCONT);
    CHECK(it.end() == "exit 124");
    return;
  }
}

TEST_CASE("a guard out of descriptors still ends the tree") {
  Run it;
  const std::string fifo = it.dir / "tree";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Lines tree(Fd(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
  const bool kills = GENERATE(false, true);
  it.start({"--key", "k", "-k", "200ms", "--", program_from("RESISTING_TREE"), fifo});
  const auto line = tree.next(patience);
  REQUIRE((line && line->starts_with("complete ")));
  const pid_t guard = it.guard();
  rlimit none{0, 0};
  REQUIRE(::prlimit(guard, RLIMIT_NOFILE, &none, nullptr) == 0);
  if (kills) it.dlock->signal(SIGKILL);
  else it.dlock->signal(SIGTERM);
  CHECK(tree.wait_end(patience));
  CHECK(until_true([&] { return !alive(guard); }));
}

TEST_CASE("orphans from before dlock's start are not part of the job") {
  Run it;
  // One that becomes an orphan after dlock's start, and one that is its child from the start.
  auto argv = it.command({"--status", "9", "--key", "k", "--", "sleep", "61"});
  std::string line;
  for (const auto& word : argv) line += "'" + word + "' ";
  it.start_as({"sh", "-c",
               "{ sleep 62 & echo $! > " + (it.dir / "orphan") + "; until [ -e " + (it.dir / "go") +
                   " ]; do sleep 0.05; done; } & sleep 63 & until [ -s " + (it.dir / "orphan") +
                   " ]; do sleep 0.05; done; exec " + line});
  REQUIRE(it.events->wait("acquired", patience));
  REQUIRE(until_true([&] { return !read_file(it.dir / "orphan").empty(); }));
  const pid_t orphan = std::stoi(read_file(it.dir / "orphan"));
  Fd(::open((it.dir / "go").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(until_true([&] {
    const auto children = children_of(it.dlock->pid());
    return std::find(children.begin(), children.end(), orphan) != children.end();
  }));
  ::kill(it.guard(), SIGKILL);
  CHECK(it.end() == "exit 125");
  CHECK(alive(orphan));
}

TEST_CASE("the guard has the descriptors of all keys") {
  const int n = GENERATE(1, 64);
  Run it;
  auto options = keys(n);
  options.insert(options.end(),
                 {"--", "sh", "-c", "echo $$ > " + (it.dir / "job") + "; exec sleep 60"});
  it.start(options);
  REQUIRE(it.events->wait("acquired", patience));
  const pid_t guard = it.guard();
  REQUIRE(until_true([&] { return !read_file(it.dir / "job").empty(); }));
  INFO(it.says());
  CHECK(until_true([&] { return descriptors(guard) >= std::size_t(n); }));
  // The guard alone keeps every key, frozen as by a debugger; dlock is dead.
  std::optional<Frozen> frozen(guard);
  it.dlock->signal(SIGKILL);
  CHECK(it.end() == "signal 9 (KILL)");
  for (const int i : {0, n / 2, n - 1}) CHECK(it.try_key("k" + std::to_string(i)) == "exit 75");
  const std::string seen = it.inspect("k0");
  CHECK_THAT(seen, Catch::Contains("its dlock is no longer running; the lock ends with its job\n"));
  CHECK_THAT(seen, !Catch::Contains("\nrevoke") && !Catch::Contains("\nkill"));
  frozen.reset();
  CHECK(until_true([&] { return !alive(guard); }));
  CHECK(it.try_key("k0") == "exit 0");
}

// The kernel counts descriptors in sockets per user, and no program of that user may send more when
// they exceed its own limit.
TEST_CASE("a job with many keys leaves no descriptor in a socket") {
  Run many, one;
  std::vector<std::string> as_user;
  if (::geteuid() == 0) {
    as_user = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
    for (const Run* r : {&many, &one}) {
      REQUIRE(::chmod((r->dir / "").c_str(), 0755) == 0);
      REQUIRE(::chown((r->dir / "locks").c_str(), 65534, 65534) == 0);
    }
    auto tried = as_user;
    tried.insert(tried.end(), {"test", "-x", program_from("DLOCK"), "-a", "-x", many.dir / ""});
    Process p = Process::start({.argv = tried});
    if (describe(p.wait(patience)) != "exit 0") {
      WARN("SKIPPED: another user cannot run " << program_from("DLOCK") << " here");
      return;
    }
  }
  const auto start = [&](Run& r, int limit, int n) {
    auto argv = as_user;
    argv.insert(argv.end(),
                {"sh", "-c", "ulimit -n " + std::to_string(limit) + " && exec \"$@\"", "sh"});
    auto command = r.command({"--status", "9"});
    const auto k = keys(n);
    command.insert(command.end(), k.begin(), k.end());
    command.insert(command.end(), {"--", "sleep", "60"});
    argv.insert(argv.end(), command.begin(), command.end());
    r.start_as(argv);
    REQUIRE(r.events->wait("acquired", patience));
  };
  start(many, 1024, 64);
  start(one, 40, 1);
  const auto job = [&] {
    for (const pid_t p : children_of(one.guard()))
      if (command_line(p).starts_with("sleep 60")) return true;
    return false;
  };
  CHECK(until_true([&] { return one.dlock->wait(0) || job(); }));
  INFO("dlock: " << describe(one.dlock->wait(0)) << "; " << one.says());
  CHECK_FALSE(one.dlock->wait(0));
}
