// SPDX-License-Identifier: Apache-2.0
#include "etcd/doctor.hpp"
#include <fmt/format.h>
#include <set>
#include "common/examination.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"

namespace dlock::etcd {
namespace {

using Level = Finding::Level;

constexpr std::int64_t usual_quota = std::int64_t{2} << 30U;

// One member, asked by itself.
class Examination {
 public:
  Examination(const Client& all, std::size_t endpoint)
      : client_(all.only(endpoint)), found_(" of " + client_.options().endpoints[0].text()) {}

  // Errors of the first request alone: this member is not there.
  Result<std::vector<Finding>> examine() {
    TRY(status, ask("/v3/maintenance/status"));
    const std::string version = text_of(status, "version");
    found_.add("server", "etcd " + printable(version), Level::good);
    found_.add("version", printable(version),
               good_if(version.starts_with("3.4.") || version.starts_with("3.5."), Level::warning),
               "dlock was tested with etcd 3.4");
    cluster_ = text_of(member(status, "header"), "cluster_id");
    leader(status);
    size(status);
    clock();
    return found_.take();
  }
  const std::string& cluster() const noexcept { return cluster_; }

 private:
  Result<Json> ask(std::string_view path) {
    return client_.ask("examine", path, Json::object(), client_.usual_deadline());
  }

  void leader(const Json& status) {
    const bool has = number_of(status, "leader") != 0 || !text_of(status, "leader").empty();
    const Json& learner = member(status, "isLearner");
    const auto problems = member(status, "errors").dump();
    found_.add("leader", has ? "known" : "none", good_if(has, Level::bad),
               "without a quorum nothing is granted or renewed");
    if (learner == true)
      found_.add("learner", "yes", Level::bad, "it serves no locks: name another member");
    if (!member(status, "errors").empty())
      found_.add("errors", printable(problems), Level::bad, "see the log of this member");
  }

  void size(const Json& status) {
    const std::int64_t bytes = number_of(status, "dbSize");
    found_.add("database", fmt::format("{} MB", bytes >> 20U),
               good_if(bytes < usual_quota / 5 * 4, Level::warning),
               "at its quota (2 GB unless set) etcd refuses leases, and holders are ended at their "
               "deadlines: compact and defragment");
  }

  void clock() {
    const double off = static_cast<double>(client_.clock_off()) / 1e6;
    found_.add("clock", fmt::format("{:+.0f} s against this host", off),
               good_if(off < 2 && off > -2, Level::warning),
               "leases do not need it; --once-per and the times shown do: synchronise them");
  }

  Client client_;
  Findings found_;
  std::string cluster_;
};

void alarms(Client& client, Findings& found) {
  const Json get{{"action", "GET"}};
  const auto list = client.ask("examine", "/v3/maintenance/alarm", get, client.usual_deadline());
  if (!list) return found.add("alarms", "may not be asked", Level::unknown);
  std::set<std::string> kinds;
  for (const Json& one : member(*list, "alarms")) kinds.insert(text_of(one, "alarm"));
  std::string seen;
  for (const std::string& kind : kinds) seen += (seen.empty() ? "" : ", ") + printable(kind);
  found.add("alarms", seen.empty() ? "none" : seen, good_if(seen.empty(), Level::bad),
            "with NOSPACE nothing is granted or renewed: compact, defragment, then etcdctl alarm "
            "disarm");
}

void members(Client& client, Findings& found) {
  const auto list =
      client.ask("examine", "/v3/cluster/member/list", Json::object(), client.usual_deadline());
  if (!list) return found.add("members", "may not be asked", Level::unknown);
  const std::size_t n = member(*list, "members").size();
  found.add("members", std::to_string(n), good_if(n >= 3 && n % 2 == 1, Level::warning),
            n == 1 ? "a single member that is emptied or restored forgets grants and repeats "
                     "tokens: three members, and after such a repair no lock for the longest ttl"
                   : "an odd number from three on");
}

// What the account may do: etcd judges the rights of both ways that a transaction can go.
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
  if (client.no_auth())
    found.add("auth", "not enabled", Level::warning,
              "the user of the URL has no meaning here; whoever reaches a member may take locks");
}

// The shortest lease that etcd gives tells its election timeout: it is one and a half.
void leases(Client& client, Findings& found) {
  const Json one{{"TTL", "1"}};
  const auto made = client.ask("examine", "/v3/lease/grant", one, client.usual_deadline());
  if (!made)
    return found.add("leases", printable(made.error().message), Level::bad,
                     "nothing can be locked");
  const std::int64_t shortest = number_of(*made, "TTL");
  (void)client.revoke("examine", number_of(*made, "ID"), client.usual_deadline());
  found.add("shortest lease", fmt::format("{} s", shortest), good_if(shortest <= 5, Level::warning),
            "an election takes about as long: ttl should be several times that");
}

}  // namespace

Result<std::vector<Finding>> examine(Client& client) {
  Findings found, silent;
  std::set<std::string> clusters;
  std::size_t answered = 0;
  Error last{Errc::unavailable, "no member answers"};
  const auto& endpoints = client.options().endpoints;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    Examination one{client, i};
    auto all = one.examine();
    if (all) {
      ++answered;
      clusters.insert(one.cluster());
      found.add(std::move(*all));
      continue;
    }
    last = std::move(all.error());
    silent.add(endpoints[i].text(), printable(last.message), Level::warning,
               "this member was not looked at");
  }
  if (answered == 0) return fail(std::move(last));
  found.add(silent.take());
  if (clusters.size() > 1)
    found.add("cluster", "the endpoints do not belong to one", Level::bad,
              "separate clusters do not exclude each other: name the members of one");
  members(client, found);
  alarms(client, found);
  rights(client, found);
  leases(client, found);
  return found.take();
}

}  // namespace dlock::etcd
