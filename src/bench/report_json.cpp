// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
#include "bench/report.hpp"
#include "core/text.hpp"

namespace dlock::bench {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double v) noexcept {
  return static_cast<double>(static_cast<std::int64_t>(v * 1000 + (v < 0 ? -0.5 : 0.5))) / 1000;
}

Json of(const Histogram& h) {
  Json j;
  for (const Quantile& q : quantiles)
    j[q.name] = h.count() ? Json(rounded(in_us(h.percentile(q.per_100000)))) : Json(nullptr);
  return j;
}

Json or_null(std::optional<double> v) { return v ? Json(rounded(*v)) : Json(nullptr); }

Json of(const Figures& f) {
  Json j{{"backend", f.backend},
         {"recipe", f.recipe},
         {"scenario", name_of(f.scenario)},
         {"clients", f.clients}};
  if (!f.skipped.empty()) {
    j["skipped"] = f.skipped;
    return j;
  }
  j["seconds"] = rounded(f.seconds);
  j["grants"] = f.grants;
  j["grants_per_s"] = rounded(f.grants_per_s());
  Json each = Json::array();
  for (const Round& r : f.rounds) each.push_back(rounded(r.grants_per_s));
  j["grants_per_s_rounds"] = std::move(each);
  Json& latency = j["latency_us"] = Json::object();
  for (std::size_t l = 0; l < latencies; ++l)
    if (l < 3 || f.latency[l].count()) latency[latency_names[l]] = of(f.latency[l]);
  j["rtt_us"] = Json{{"p50", rounded(in_us(f.rtt))}};
  j["fairness_jain"] = rounded(f.fairness());
  j["max_overtakes"] = f.max_overtakes;
  j["longest_wait_us"] = rounded(in_us(f.longest_wait));
  j["starved_clients"] = f.starved;
  j["commands_per_grant"] = rounded(f.commands_per_grant());
  j["wakeups_per_grant"] = or_null(f.wakeups_per_grant());
  if (f.scenario == Scenario::renew) j["leases_kept"] = or_null(f.leases_kept());
  j["errors"] = f.errors;
  if (!f.first_error.empty()) j["first_error"] = printable(f.first_error);
  j["overlaps"] = f.overlaps;
  j["token_inversions"] = f.inversions;
  j["late_holds"] = f.late;
  if (!f.first_violation.empty()) j["first_violation"] = printable(f.first_violation);
  return j;
}

Json host() {
  utsname u{};
  ::uname(&u);
  return Json{{"name", u.nodename},
              {"kernel", u.release},
              {"machine", u.machine},
              {"cpus", ::sysconf(_SC_NPROCESSORS_ONLN)}};
}

}  // namespace

std::string json_of(const Plan& p, const Report& r, std::string_view version) {
  Json j{{"version", 1}, {"dlock", version}, {"host", host()}};
  const auto seconds = [](Duration d) { return rounded(std::chrono::duration<double>(d).count()); };
  j["config"] = Json{{"clients", p.clients},
                     {"duration_s", p.ops ? Json(nullptr) : Json(seconds(p.duration))},
                     {"ops", p.ops ? Json(p.ops) : Json(nullptr)},
                     {"hold_s", seconds(p.hold)},
                     {"rate", p.rate ? Json(p.rate) : Json(nullptr)},
                     {"repeat", p.repeat},
                     {"ttl_s", seconds(p.ttl)},
                     {"crash_ttl_s", seconds(p.crash_ttl)}};
  j["runs"] = Json::array();
  for (const Figures& f : r.runs) j["runs"].push_back(of(f));
  j["notes"] = r.notes;
  j["pass"] = !r.violated();
  j["complete"] = r.signal == 0;
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace dlock::bench
