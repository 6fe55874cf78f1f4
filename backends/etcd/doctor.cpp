// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include "common/examination.hpp"
#include "core/text.hpp"
#include "etcd/queue/queue_backend.hpp"

namespace dlock::etcd {
namespace {

using Level = Finding::Level;

constexpr std::int64_t usual_quota = std::int64_t{2} << 30U;

Result<Json> query(Client& client, std::string_view path, Json body = Json::object()) {
  return client.query("examine", path, std::move(body), client.usual_deadline());
}

// Examines one member alone, and adds its cluster to `clusters`. Error: the member does not reply.
Result<std::vector<Finding>> examine_member(const Client& all, std::size_t endpoint,
                                            std::set<std::string>& clusters) {
  Client client = all.only(endpoint);
  Findings found{" of " + client.options().endpoints.front().text()};
  TRY(status, query(client, "/v3/maintenance/status"));
  clusters.insert(text_of(member(status, "header"), "cluster_id"));

  const std::string version = text_of(status, "version");
  found.add("server", "etcd " + printable(version), Level::good);
  found.add("version", printable(version),
            good_if(version.starts_with("3.4.") || version.starts_with("3.5."), Level::warning),
            "dlock was tested with etcd 3.4");

  const bool led = number_of(status, "leader") != 0 || !text_of(status, "leader").empty();
  found.add("leader", led ? "known" : "none", good_if(led, Level::bad),
            "without a quorum nothing is granted or renewed");
  if (member(status, "isLearner") == true)
    found.add("learner", "yes", Level::bad, "it serves no locks: name another member");
  if (const Json& errors = member(status, "errors"); !errors.empty())
    found.add("errors", printable(errors.dump()), Level::bad, "see the log of this member");

  const std::int64_t bytes = number_of(status, "dbSize");
  found.add("database", fmt::format("{} MB", bytes >> 20U),
            good_if(bytes < usual_quota / 5 * 4, Level::warning),
            "at its quota (2 GB unless set) etcd refuses leases, and holders are ended at their "
            "deadlines: compact and defragment");

  const double off = static_cast<double>(client.clock_off()) / 1e6;
  found.add("clock", fmt::format("{:+.0f} s against this host", off),
            good_if(off < 2 && off > -2, Level::warning),
            "leases do not need it; --once-per and the times shown do: synchronise them");
  return found.extract();
}

void alarms(Client& client, Findings& found) {
  const auto list = query(client, "/v3/maintenance/alarm", {{"action", "GET"}});
  if (!list) return found.add("alarms", "may not be asked", Level::unknown);
  std::set<std::string> kinds;
  for (const Json& one : member(*list, "alarms")) kinds.insert(printable(text_of(one, "alarm")));
  found.add("alarms", kinds.empty() ? "none" : fmt::format("{}", fmt::join(kinds, ", ")),
            good_if(kinds.empty(), Level::bad),
            "with NOSPACE nothing is granted or renewed: compact, defragment, then etcdctl alarm "
            "disarm");
}

void members(Client& client, Findings& found) {
  const auto list = query(client, "/v3/cluster/member/list");
  if (!list) return found.add("members", "may not be asked", Level::unknown);
  const std::size_t n = member(*list, "members").size();
  found.add("members", std::to_string(n), good_if(n >= 3 && n % 2 == 1, Level::warning),
            n == 1 ? "a single member that is emptied or restored forgets grants and repeats "
                     "tokens: three members, and after such a repair no lock for the longest ttl"
                   : "an odd number from three on");
}

// Checks the account's rights by a transaction that writes nothing. etcd checks the rights for both
// branches of a transaction.
void rights(Client& client, Findings& found) {
  const std::string key = client.options().root + "doctor";
  const Json never = transaction({created(key, INT64_MAX)}, {put(key, "")},
                                 {list(client.options().root, 0, true)});
  const auto done = client.txn("examine", never, client.usual_deadline());
  const bool denied = !done && done.error().code == Errc::denied;
  if (done || denied)
    found.add("rights", denied ? "missing" : "enough", good_if(!denied, Level::bad),
              fmt::format("readwrite on all keys that begin with {}",
                          dlock::quoted(client.options().root)));
  const Options& o = client.options();
  if (!o.user.empty() && !o.tls && !o.is_on_loopback)
    found.add("login", "the password is sent unencrypted", Level::warning,
              "?tls=yes, a private network or a tunnel");
  if (client.no_auth())
    found.add("auth", "not enabled", Level::warning,
              "the user of the URL has no meaning here; whoever reaches a member may take locks");
}

// etcd's shortest lease lasts one and a half election timeouts, so it shows the election timeout.
void leases(Client& client, Findings& found) {
  const auto made = query(client, "/v3/lease/grant", {{"TTL", "1"}});
  if (!made)
    return found.add("leases", printable(made.error().message), Level::bad,
                     "nothing can be locked");
  const std::int64_t shortest = number_of(*made, "TTL");
  // Do what the first lock does: create a key that ends with its lease.
  const std::string key = client.options().root + "doctor-" + Owner::random().hex();
  const auto written = client.txn(
      "examine", transaction({created(key, 0)}, {put(key, "", number_of(*made, "ID"))}, {}),
      client.usual_deadline());
  if (written) found.add("writing", "a key was written, and goes with its lease", Level::good);
  else if (written.error().code != Errc::denied)
    found.add("writing", printable(written.error().message), Level::bad, "nothing can be locked");
  (void)client.revoke("examine", number_of(*made, "ID"), client.usual_deadline());
  found.add("shortest lease", fmt::format("{} s", shortest), good_if(shortest <= 5, Level::warning),
            "an election takes about as long: ttl should be several times that");
}

}  // namespace

Result<std::vector<Finding>> QueueBackend::doctor() {
  Findings found, silent;
  std::set<std::string> clusters;
  Error last{Errc::unavailable, "no member answers"};
  const auto& endpoints = client_.options().endpoints;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    auto all = examine_member(client_, i, clusters);
    if (all) {
      found.add(std::move(*all));
      continue;
    }
    last = std::move(all.error());
    silent.add(endpoints[i].text(), printable(last.message), Level::warning,
               "this member was not looked at");
  }
  if (clusters.empty()) return fail(std::move(last));
  found.add(silent.extract());
  if (clusters.size() > 1)
    found.add("cluster", "the endpoints do not belong to one", Level::bad,
              "separate clusters do not exclude each other: name the members of one");
  members(client_, found);
  alarms(client_, found);
  rights(client_, found);
  leases(client_, found);
  return found.extract();
}

}  // namespace dlock::etcd
