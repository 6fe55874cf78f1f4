// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "bench/report.hpp"
#include "core/text.hpp"

namespace dlock::bench {
namespace {

using Json = nlohmann::ordered_json;

Json of(const Histogram& h) {
  Json j;
  for (const Quantile& q : quantiles)
    j[q.name] = h.count() ? Json(in_us(h.percentile(q.per_100000))) : Json(nullptr);
  return j;
}

Json or_null(std::optional<double> v) { return v ? Json(*v) : Json(nullptr); }

// Returns one run, with unrounded numbers. CSV is made from it, too.
Json of(const Figures& f) {
  Json j{{"backend", f.backend},
         {"recipe", f.recipe},
         {"scenario", name_of(f.scenario)},
         {"clients", f.clients}};
  if (!f.skipped.empty()) {
    j["skipped"] = f.skipped;
    return j;
  }
  j["seconds"] = f.seconds;
  j["grants"] = f.grants;
  j["grants_per_s"] = f.grants_per_s();
  j["grants_per_s_rounds"] = f.rounds;
  Json& latency = j["latency_us"] = Json::object();
  for (std::size_t l = 0; l < latencies; ++l)
    if (l < 3 || f.latency[l].count()) latency[latency_names[l]] = of(f.latency[l]);
  j["rtt_us"] = Json{{"p50", in_us(f.rtt)}};
  j["fairness_jain"] = f.fairness();
  j["max_overtakes"] = f.max_overtakes;
  j["longest_wait_us"] = in_us(f.longest_wait);
  j["starved_clients"] = f.starved;
  j["commands_per_grant"] = f.commands_per_grant();
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

// Rounds numbers to three decimals.
Json rounded(Json j) {
  if (j.is_structured())
    for (Json& part : j) part = rounded(std::move(part));
  if (!j.is_number_float()) return j;
  const double v = j.get<double>();
  return static_cast<double>(static_cast<std::int64_t>(v * 1000 + (v < 0 ? -0.5 : 0.5))) / 1000;
}

// The columns of CSV, and their place in a run of the JSON output.
struct CsvColumn {
  std::string name, at;
  int decimals = 3;
};
std::vector<CsvColumn> csv_columns() {
  std::vector<CsvColumn> all;
  const auto add = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) all.push_back({name, fmt::format("/{}", name)});
  };
  add({"backend", "recipe", "scenario", "clients", "seconds", "grants", "grants_per_s"});
  for (const std::string_view l : latency_names)
    for (const Quantile& q : quantiles)
      all.push_back(
          {fmt::format("{}_{}_us", l, q.name), fmt::format("/latency_us/{}/{}", l, q.name)});
  all.push_back({"rtt_p50_us", "/rtt_us/p50"});
  all.push_back({"fairness_jain", "/fairness_jain", 4});
  add({"max_overtakes", "commands_per_grant", "wakeups_per_grant", "errors", "overlaps",
       "token_inversions"});
  return all;
}

std::string csv_cell(const Json& run, const CsvColumn& c) {
  const Json::json_pointer at(c.at);
  const Json cell = run.contains(at) ? run[at] : Json(nullptr);
  if (cell.is_null()) return "";
  if (cell.is_number_float()) return fmt::format("{:.{}f}", cell.get<double>(), c.decimals);
  return cell.is_string() ? cell.get<std::string>() : cell.dump();
}

Json of(const Host& h) {
  return Json{
      {"name", h.name}, {"kernel", h.kernel}, {"machine", h.machine}, {"cpus", h.processors}};
}

}  // namespace

std::string json_of(const Plan& p, const Report& r, std::string_view version) {
  Json j{{"version", 1}, {"dlock", version}, {"host", of(r.host)}};
  const auto seconds = [](Duration d) { return std::chrono::duration<double>(d).count(); };
  j["config"] = Json{{"clients", p.clients},
                     {"duration_s", p.ops ? Json(nullptr) : Json(seconds(p.duration))},
                     {"ops", p.ops ? Json(p.ops) : Json(nullptr)},
                     {"hold_s", seconds(p.hold_for)},
                     {"rate", p.rate ? Json(p.rate) : Json(nullptr)},
                     {"repeat", p.repeat},
                     {"ttl_s", seconds(p.ttl)},
                     {"crash_ttl_s", seconds(p.crash_ttl)}};
  j["runs"] = Json::array();
  for (const Figures& f : r.runs) j["runs"].push_back(of(f));
  j["notes"] = r.notes;
  j["pass"] = !r.violated();
  j["complete"] = r.signal == 0;
  return rounded(std::move(j)).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string csv_of(const Report& r) {
  const std::vector<CsvColumn> columns = csv_columns();
  Row head;
  for (const CsvColumn& c : columns) head.push_back(c.name);
  std::string text = csv_line(head);
  for (const Figures& f : r.runs) {
    if (!f.skipped.empty()) continue;
    const Json run = of(f);
    Row row;
    for (const CsvColumn& c : columns) row.push_back(csv_cell(run, c));
    text += csv_line(row);
  }
  return text;
}

}  // namespace dlock::bench
