// SPDX-License-Identifier: Apache-2.0
#include "grants.hpp"
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include "report/lines.hpp"
#include "store/factory.hpp"
#include "support/process.hpp"

namespace dlock::faults {
namespace {

constexpr std::size_t processes = 8, keys = 2, at_once = 100'000;
constexpr std::int64_t patience = 60'000'000'000;

class Trace {
 public:
  explicit Trace(const std::string& path) {
    auto opened = run::open_lines("--trace", path);
    if (!opened) throw std::runtime_error(opened.error().message);
    fd_ = std::move(*opened);
  }
  void write(const char* ev, const char* f, const Lease& of, run::Fields fields = {}) const {
    // All of the owner: the mark of eight digits that dlock run writes is not unique in a million.
    const std::string line =
        run::trace_line({ev, f, of.key.text(), of.owner.hex()}, {fields.begin(), fields.end()});
    if (::write(fd_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("cannot write the trace");
  }

 private:
  Fd fd_;
};

std::unique_ptr<Backend> open(const std::string& url, std::string_view recipe) {
  if (backends().empty()) throw std::runtime_error("built without backends");
  const auto parsed = Url::parse(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  const auto choice = choose(*parsed, recipe);
  if (!choice) throw std::runtime_error(choice.error().message);
  auto backend = choice->factory->open(*parsed, *choice->traits, {});
  if (!backend) throw std::runtime_error(backend.error().message);
  return std::move(*backend);
}

Lease acquire(Backend& backend, const Request& request, const Trace& trace) {
  const Lease asks{.key = request.key, .owner = request.owner};
  trace.write("invoke", "acquire", asks);
  auto waiter = backend.enqueue(request);
  if (!waiter) throw std::runtime_error(waiter.error().message);
  bool queued = false;
  for (const std::int64_t until = boot_ns() + patience; boot_ns() < until;) {
    const auto progress = (*waiter)->poll(std::chrono::milliseconds{500});
    if (!progress) throw std::runtime_error(progress.error().message);
    if (const auto* granted = std::get_if<Granted>(&*progress)) {
      const Lease& lease = granted->lease;
      const auto token = static_cast<std::int64_t>(lease.token);
      if (lease.deadline == no_deadline) trace.write("ok", "acquire", lease, {{"token", token}});
      else
        trace.write("ok", "acquire", lease,
                    {{"token", token},
                     {"deadline", std::int64_t{lease.deadline.time_since_epoch().count()}}});
      return lease;
    }
    if (!queued) trace.write("queued", "acquire", asks);
    queued = true;
  }
  throw std::runtime_error("not granted within a minute");
}

void use(Arena& arena, std::size_t key, std::uint64_t token) {
  Resource& resource = arena.resources[key];
  const auto write = [&](bool counts, std::int64_t read) {
    Write& log = arena.take_write();
    log.key = static_cast<std::int32_t>(key);
    resource.write(token, counts, read, log);
  };
  write(false, 0);
  const std::int64_t fenced = resource.fenced();
  const std::uint32_t unfenced = resource.unfenced();
  write(true, fenced);
  resource.write_unfenced(unfenced + 1);
}

void client(const std::string& url, const Recipe& recipe, std::size_t number,
            const std::string& path, Arena& arena, std::size_t goal) {
  const Trace trace(path);
  const auto backend = open(url, recipe.recipe);
  for (std::size_t n = number; arena.slots_used < goal; ++n) {
    const std::size_t key = n % keys;
    const Lease lease = acquire(*backend,
                                {.key = *Key::parse(fmt::format("fault-{}", key)),
                                 .owner = Owner::random(),
                                 .ttl = std::chrono::seconds{30},
                                 .identity = Identity::mine("grants")},
                                trace);
    ++arena.slots_used;  // of no slot: it counts the grants
    use(arena, key, lease.token);
    trace.write("invoke", "release", lease);
    const auto released = backend->release(lease);
    if (!released) throw std::runtime_error(released.error().message);
    trace.write(*released == Released::yes ? "ok" : "fail", "release", lease);
  }
}

void run_clients(const std::string& url, const Recipe& recipe, const test::TempDir& directory,
                 Arena& arena, std::size_t goal, Evidence& evidence) {
  const pid_t parent = ::getpid();
  std::vector<pid_t> pids;
  std::fflush(stdout);
  for (std::size_t i = 0; i < processes; ++i) {
    evidence.traces.push_back(directory / fmt::format("{}.trace", i));
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      try {
        client(url, recipe, i, evidence.traces.back(), arena, goal);
        ::_exit(0);
      } catch (const std::exception& e) {
        fmt::print(stderr, "{}: {}\n", recipe.name, e.what());
        ::_exit(1);
      }
    }
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) evidence.left.push_back(fmt::format("a client that failed, {}", pid));
  }
}

void add(const Row& part, Row& to) {
  to.grants += part.grants;
  for (const auto& [id, n] : part.violations) to.violations[id] += n;
  to.lost_updates += part.lost_updates;
  to.stale_refused += part.stale_refused;
  to.stale_accepted += part.stale_accepted;
  to.torn += part.torn;
  to.broken.insert(to.broken.end(), part.broken.begin(), part.broken.end());
}

}  // namespace

Row run_grants(const Recipe& recipe, std::size_t grants) {
  Row row{.target = std::string{recipe.name}, .fault = "none", .what = "none, Backend alone"};
  const double began = test::boot_now();
  const auto target = make_target(recipe, Fault::none);
  for (std::size_t left = grants; left > 0 && row.broken.empty();) {
    const std::size_t now = std::min(left, at_once);
    const test::TempDir directory;
    Arena& arena = Arena::map(directory / "arena", true);
    const std::vector<Injection> none;
    Evidence evidence{std::string{recipe.name}, recipe, {}, arena, {0, 1},
                      recipe.ordered,           false,  {}, none};
    run_clients(target->url(), recipe, directory, arena, now, evidence);
    arena.slots_used = 0;
    add(judge(evidence), row);
    Arena::unmap(arena);
    left -= now;
  }
  row.seconds = test::boot_now() - began;
  return row;
}

}  // namespace dlock::faults
