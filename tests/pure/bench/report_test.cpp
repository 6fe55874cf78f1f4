// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace dlock;
using namespace dlock::bench;

namespace {

Figures some(Scenario s, std::string recipe = "fair") {
  Figures f;
  f.backend = "redis";
  f.recipe = std::move(recipe);
  f.scenario = s;
  f.clients = 2;
  f.seconds = 5;
  f.grants = 100;
  f.per_client = {60, 40};
  f.rounds.resize(2);
  f.rounds[0] = 10;
  f.rounds[1] = 30;
  f.requests = 200;
  f.wakes = true;
  f.wakeups = 100;
  f.rtt = std::chrono::microseconds{70};
  for (auto& h : f.latency) h.record(std::chrono::microseconds{100});
  f.timeline->add(std::chrono::milliseconds{1}, std::chrono::microseconds{100});
  return f;
}

struct Sample {
  Plan plan;
  Report report;
  Sample() {
    for (const ScenarioInfo& i : scenarios()) {
      plan.scenarios.push_back(i.scenario);
      report.runs.push_back(some(i.scenario));
      report.runs.push_back(some(i.scenario, "<set>"));
      report.runs.back().rounds[0] = 5;
      report.runs.back().rounds[1] = 5;
    }
    plan.clients = 2;
    plan.prefix = "p-";
    report.notes = {"a <note>"};
  }
};

}  // namespace

TEST_CASE("the names of the JSON output") {
  const Sample s;
  const auto j = nlohmann::json::parse(json_of(s.plan, s.report, "9.9"));
  CHECK(j["version"] == 1);
  CHECK(j["host"].is_object());
  CHECK(j["pass"] == true);
  REQUIRE(j["runs"].size() == 12);
  const auto& run = j["runs"][2];
  CHECK(run["backend"] == "redis");
  CHECK(run["recipe"] == "fair");
  CHECK(run["scenario"] == "handoff");
  CHECK(run["clients"] == 2);
  CHECK(run["seconds"] == 5.0);
  CHECK(run["grants"] == 100);
  CHECK(run["grants_per_s"] == 20.0);  // the median of two
  for (const char* latency : {"acquire", "release", "handoff"})
    for (const char* q : {"p50", "p90", "p99", "p999", "max"})
      CHECK(run["latency_us"][latency][q] == 100.0);
  CHECK(run["rtt_us"]["p50"] == 70.0);
  CHECK(run["fairness_jain"] == Approx(0.962).margin(0.001));
  CHECK(run["max_overtakes"] == 0);
  CHECK(run["commands_per_grant"] == 2.0);
  CHECK(run["wakeups_per_grant"] == 1.0);
  CHECK(run["errors"] == 0);
  CHECK(run["overlaps"] == 0);
  CHECK(run["token_inversions"] == 0);
}

TEST_CASE("an overlap fails") {
  Sample s;
  s.report.runs[2].overlaps = 1;
  s.report.runs[2].first_violation = "what happened";
  CHECK(nlohmann::json::parse(json_of(s.plan, s.report, "9.9"))["pass"] == false);
  const std::string text = text_of(s.plan, s.report, "9.9");
  CHECK(text.find("FAIL  redis fair handoff: 1 overlaps, 0 token inversions; what happened\n") !=
        text.npos);
  CHECK(text.find("PASS") == text.npos);
}

TEST_CASE("the table compares") {
  const Sample s;
  const std::string text = text_of(s.plan, s.report, "9.9");
  CHECK(text.find("redis fair is 4.0× redis <set>\n") != text.npos);
  CHECK(text.find("20.0 [10.0-30.0]") != text.npos);
  CHECK(text.find("PASS  mutual exclusion: 600 contended grants checked") != text.npos);
}

TEST_CASE("CSV: every line has the same number of cells") {
  const Sample s;
  const std::string csv = csv_of(s.report);
  std::size_t lines = 0, commas = 0, wanted = 0;
  for (const char c : csv) {
    commas += c == ',';
    if (c != '\n') continue;
    if (lines++ == 0) wanted = commas;
    CHECK(commas == wanted);
    commas = 0;
  }
  CHECK(lines == 13);
}

TEST_CASE("the HTML page loads nothing and escapes all text") {
  const Sample s;
  const std::string page = html_of(s.plan, s.report, "9.9");
  CHECK(page.find("http") == page.npos);
  CHECK(page.find("src=") == page.npos);
  CHECK(page.find("<set>") == page.npos);
  CHECK(page.find("&lt;set&gt;") != page.npos);
  CHECK(page.find("a &lt;note&gt;") != page.npos);
  CHECK(page.find("prefers-color-scheme") != page.npos);
  CHECK(page.find("<svg") != page.npos);
  CHECK(page.find("nan") == page.npos);
}

TEST_CASE("a run without samples is an error with its reason, not a row of zeros") {
  Sample s;
  CHECK_FALSE(s.report.without_samples());
  Figures& f = s.report.runs[0];
  f.grants = 0;
  f.latency = {};
  f.first_error = "no route";
  CHECK(s.report.without_samples());
  const Table t = tables_of(s.plan, s.report).front();
  CHECK(t.rows.size() == 1);
  CHECK(t.remarks.back() == target_name(f) + ": no samples: no route");
  const auto lines = verdict(s.report);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("ERROR ") && line.ends_with("no samples: no route");
        }) == 1);
  s.report.signal = 2;  // ended early
  CHECK_FALSE(verdict(s.report).front().starts_with("ERROR "));
}

TEST_CASE("a ranking says which of the ranked are no servers") {
  Sample s;
  Traits local{}, remote{};
  local.liveness = Liveness::process;
  remote.liveness = Liveness::lease;
  Target a, b;
  a.backend = b.backend = "redis";
  a.recipe = "fair";
  b.recipe = "<set>";
  a.traits = b.traits = &remote;
  s.plan.targets = {a, b};
  const auto told = [&] {
    const auto remarks = tables_of(s.plan, s.report).front().remarks;
    return std::any_of(remarks.begin(), remarks.end(), [](const std::string& r) {
      return r.find("locks of this machine alone") != r.npos;
    });
  };
  CHECK_FALSE(told());
  s.plan.targets[1].traits = &local;
  CHECK(told());
  s.plan.targets[0].traits = &local;  // nothing to compare with
  CHECK_FALSE(told());
}
