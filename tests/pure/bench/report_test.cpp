// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include "core/text.hpp"
#include "util/table.hpp"

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
  Sample s;
  std::string text = text_of(s.plan, s.report, "9.9");
  CHECK(text.find("20.0 ±50%") != text.npos);
  CHECK(text.find("PASS  mutual exclusion: 600 contended grants checked") != text.npos);
  for (Figures& f : s.report.runs) f.grants = 7;
  text = text_of(s.plan, s.report, "9.9");
  CHECK(text.find("PASS  mutual exclusion: 42 contended grants checked") != text.npos);
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

TEST_CASE("the text fits 80 columns, and ends with one sentence that compares") {
  Sample s;
  s.plan.repeat = 2;
  for (Figures& f : s.report.runs) {
    f.backend = f.recipe == "fair" ? "zookeeper" : "postgresql";
    f.recipe = f.recipe == "fair" ? "sequential" : "advisory";
    for (double& rate : f.rounds) rate *= 399;
    f.longest_wait = std::chrono::milliseconds{123};
    for (auto& h : f.latency) h.record(std::chrono::microseconds{123'456});
  }
  std::string text = text_of(s.plan, s.report, "9.9");
  std::string_view rest = text;
  std::size_t tables = 0;
  while (!rest.empty()) {
    const std::string_view line = next_part(rest, '\n');
    const bool row = line.starts_with("zookeeper sequential  ") || line.starts_with("backend ");
    tables += row;
    INFO(line);
    if (row || line.starts_with("dlock ")) CHECK(columns_of(line) <= 80);
  }
  CHECK(tables == 12);
  s = Sample{};
  s.plan.scenarios = {Scenario::handoff};
  text = text_of(s.plan, s.report, "9.9");
  CHECK(text.ends_with("\nredis fair is 4.0 times as fast as redis <set>\n"));
  s.plan.scenarios = {Scenario::uncontended, Scenario::handoff};
  Figures third = s.report.runs[2];
  third.recipe = "none";
  third.rounds = {2};
  s.report.runs.push_back(third);
  CHECK(summary(s.plan, s.report) ==
        "uncontended: redis fair is 4.0 times as fast as redis <set>; handoff: redis fair is 4.0 "
        "times as fast as redis <set> and 10 times as fast as redis none");
  for (double& rate : s.report.runs[2].rounds) rate = 5;
  s.plan.scenarios = {Scenario::handoff};
  s.report.runs.pop_back();
  CHECK(summary(s.plan, s.report) == "redis fair is as fast as redis <set>");
  s.report.signal = 2;
  CHECK(summary(s.plan, s.report).empty());
}

TEST_CASE("the HTML page says when, where and on what, and the verdict before all figures") {
  Sample s;
  s.report.began = 1'795'901'400'000'000;
  s.report.host = {"db3", "Linux", "6.1.0", "x86_64", "A <CPU>", 8};
  s.report.servers = {"redis: 7.0.15"};
  std::string page = html_of(s.plan, s.report, "9.9");
  const auto before = [&](std::string_view first, std::string_view second) {
    INFO(first << " before " << second);
    REQUIRE(page.find(first) != page.npos);
    REQUIRE(page.find(second) != page.npos);
    CHECK(page.find(first) < page.find(second));
  };
  before("PASS  mutual exclusion", "<h2>");
  before("<dd>2026-11-28 21:30 UTC</dd>", "<h2>");
  before("<dd>db3, Linux 6.1.0 x86_64</dd>", "<h2>");
  before("<dd>8 × A &lt;CPU&gt;</dd>", "<h2>");
  before("<dd>redis: 7.0.15</dd>", "<h2>");
  before("redis fair is 4.0 times as fast as redis &lt;set&gt;", "<h2>");
  before("Grants per second", "Acquire</h3>");
  CHECK(page.find("Grants of each client") == page.npos);
  CHECK(page.find("µs<") != page.npos);
  s.report.runs[2].overlaps = 1;
  s.report.runs[2].first_violation = "what <happened>";
  page = html_of(s.plan, s.report, "9.9");
  before("FAIL  redis fair handoff: 1 overlaps, 0 token inversions; what &lt;happened&gt;", "<h2>");
  CHECK(page.find("PASS") == page.npos);
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
