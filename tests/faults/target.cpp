// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"
#include <algorithm>
#include <initializer_list>

namespace dlock::faults {
namespace {

bool is_one_of(Fault fault, std::initializer_list<Fault> these) {
  return std::find(these.begin(), these.end(), fault) != these.end();
}

}  // namespace

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all{
      {"file-lease", "file", "lease", 2, true, true, false, 300},
      {"file-flock", "file", "flock", 2, false, true, false, 250},
      {"redis-fair", "redis", "fair", 2, true, false, false, 200},
      {"redis-set", "redis", "set", 2, false, false, false, 150},
      {"redlock", "redlock", "redlock", 2, false, false, false, 30},
      {"zookeeper", "zookeeper", "sequential", 4, true, false, false, 10},
      {"etcd-queue", "etcd", "queue", 4, true, false, false, 10},
      {"mysql-lease", "mysql", "lease", 2, true, false, false, 30},
      {"postgresql-lease", "postgresql", "lease", 2, true, false, false, 30},
      {"postgresql-advisory", "postgresql", "advisory", 2, false, false, true, 30},
      {"mysql-get-lock", "mysql", "get-lock", 2, false, false, true, 30},
      {"sentinel", "sentinel", "fair", 2, true, false, false, 0, true},
      {"cluster", "cluster", "fair", 2, true, false, false, 0, true},
  };
  return all;
}

// Every grant is kept, as its operator says by restart_grace=0: in memory, and on disk where the
// server is killed. For Fault::wipe nothing is kept, and the grace is what protects. Of five
// masters three are stopped or stepped, or two where the fault is that of a minority. ZooKeeper's
// leases end by its tick.
std::unique_ptr<test::Store> make_target(const Recipe& r, Fault fault, bool as_installed) {
  test::StoreSetup setup{
      .as_installed = as_installed || r.store == "zookeeper",
      .proxied = is_one_of(fault, {Fault::cut, Fault::lose_reply, Fault::delay, Fault::reset}),
      .movable_clock =
          is_one_of(fault, {Fault::clock_ahead, Fault::clock_back, Fault::minority_clock})};
  const bool minority = is_one_of(fault, {Fault::minority, Fault::minority_clock});
  if (as_installed) {
    if (minority) setup.harmed = 1;
  } else {
    if (r.store == "redis" || r.store == "redlock")
      setup.items = fault == Fault::wipe ? "?restart_grace=3s" : "?restart_grace=0";
    setup.durable = fault == Fault::restart;
    setup.servers = r.store == "redlock" ? 5U : 1U;
    setup.harmed = minority ? 2U : 3U;
  }
  return test::make_store(std::string{r.store}, setup);
}

bool applies(const Recipe& r, Fault fault) {
  if (r.as_installed_only && !to_processes(fault) &&
      !is_one_of(fault,
                 {Fault::none, Fault::stop_short, Fault::stop_long, Fault::fail_over, Fault::move}))
    return false;
  const bool file = r.attached, redlock = r.name == "redlock", zookeeper = r.name == "zookeeper",
             redis = r.name.starts_with("redis-"), mysql = r.name.starts_with("mysql-"),
             postgresql = r.name.starts_with("postgresql-");
  switch (fault) {
    case Fault::stop_long: return r.name != "file-flock";  // which only the holder locks
    case Fault::restart:
    case Fault::stop_short:
    case Fault::stop_middle:
    case Fault::cut:
    case Fault::lose_reply:
    case Fault::delay:
    case Fault::reset: return !file;
    case Fault::wipe:
    case Fault::flush: return redis || redlock;
    case Fault::clock_ahead:
    case Fault::clock_back: return redis || redlock || mysql || postgresql;
    case Fault::minority:
    case Fault::minority_clock: return redlock;
    case Fault::fail_over: return r.store == "sentinel";
    case Fault::move: return r.store == "cluster";
    // sequential's queue and the lock are one; a node that is gone is found by the next test
    default: return !(zookeeper && is_one_of(fault, {Fault::clock_ahead, Fault::clock_back}));
  }
}

std::string_view not_covered(const Recipe& r, Fault fault) {
  switch (fault) {
    case Fault::kill_both: return "both are killed";
    case Fault::stop_both: return r.attached ? "" : "both are stopped until the lease ends";
    case Fault::freeze_all: return r.attached ? "" : "all are frozen past the end of a lease";
    case Fault::flush: return "what is deleted is forgotten at once";
    case Fault::remove:
      return r.name == "file-flock" ? "" : "release --force gives the lock away at once";
    case Fault::clock_ahead: return r.name == "mysql-get-lock" ? "" : "leases end early by as much";
    case Fault::restart:
    case Fault::cut:
    case Fault::lose_reply:
    case Fault::reset: return r.connection ? "the connection is closed, and the lock with it" : "";
    default: return "";
  }
}

std::string_view not_covered(const Recipe& r, const Faults& faults) {
  const std::string_view first = not_covered(r, faults.first);
  return first.empty() ? not_covered(r, faults.midway) : first;
}

}  // namespace dlock::faults
