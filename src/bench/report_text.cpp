// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "bench/report.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"

namespace dlock::bench {
namespace {

std::string times(const Histogram& h, std::uint32_t per_100000) {
  return h.count() ? short_time(h.percentile(per_100000)) : std::string("-");
}

std::string heading(const Plan& p, Scenario s) {
  std::string name(name_of(s));
  for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  std::string about(scenarios()[static_cast<std::size_t>(s)].about);
  if (s == Scenario::limit)
    about = fmt::format("all clients want one of {} permits", permits(p.clients));
  if (s == Scenario::crash) about += fmt::format(", ttl {}", format_duration(p.crash_ttl));
  return fmt::format("{}: {}", name, about);
}

std::string count(std::uint64_t n) { return fmt::to_string(n); }

template <Latency L, std::uint32_t Per100000>
std::string time_of(const Figures& f) {
  return times(f.of(L), Per100000);
}

constexpr unsigned in(Scenario s) noexcept { return 1U << static_cast<unsigned>(s); }
constexpr unsigned alone = in(Scenario::uncontended), renewing = in(Scenario::renew),
                   crash = in(Scenario::crash), everywhere = ~0U,
                   contention = in(Scenario::handoff) | in(Scenario::shared) | in(Scenario::limit);

struct Column {
  unsigned scenarios;            // the scenarios with this column
  std::string_view group, head;  // the two lines of a heading
  std::string (*cell)(const Figures&);
};
constexpr Column columns[] = {
    {everywhere, "", "backend", target_name},
    {crash, "", "crashes", [](const Figures& f) { return count(f.of(Latency::takeover).count()); }},
    {crash, "next grant", "median", time_of<Latency::takeover, 50'000>},
    {crash, "next grant", "min",
     [](const Figures& f) {
       const Histogram& h = f.of(Latency::takeover);
       return h.count() ? short_time(h.min()) : "-";
     }},
    {crash, "next grant", "max", time_of<Latency::takeover, 100'000>},
    {contention, "", "overlaps", [](const Figures& f) { return count(f.overlaps); }},
    {alone | contention, "", "grants/s", rate},
    {renewing, "", "renewals/s", rate},
    {renewing, "renew", "p50", time_of<Latency::renew, 50'000>},
    {renewing, "renew", "p99", time_of<Latency::renew, 99'000>},
    {renewing, "renew", "max", time_of<Latency::renew, 100'000>},
    {renewing, "leases", "kept alive",
     [](const Figures& f) { return f.leases_kept() ? grouped(*f.leases_kept()) : "-"; }},
    {alone, "acquire", "p50", time_of<Latency::acquire, 50'000>},
    {alone, "acquire", "p99", time_of<Latency::acquire, 99'000>},
    {alone, "acquire", "max", time_of<Latency::acquire, 100'000>},
    {alone, "release", "p50", time_of<Latency::release, 50'000>},
    {alone, "rtt", "p50", [](const Figures& f) { return short_time(f.rtt); }},
    {contention, "hand-off", "p50", time_of<Latency::handoff, 50'000>},
    {contention, "hand-off", "p99", time_of<Latency::handoff, 99'000>},
    {contention, "wait", "max", [](const Figures& f) { return short_time(f.longest_wait); }},
    {contention, "", "fair", [](const Figures& f) { return fmt::format("{:.2f}", f.fairness()); }},
    {everywhere & ~crash, "", "cmds",
     [](const Figures& f) { return fmt::format("{:.2f}", f.commands_per_grant()); }},
};

std::string why_no_samples(const Figures& f) {
  if (!f.first_error.empty()) return f.first_error;
  return f.scenario == Scenario::crash ? "no waiter was granted the lock after a crash"
                                       : "no grant within the time of the measurement";
}

// The targets of a scenario, the fastest first, each with a figure that grows with its speed.
using Ranking = std::vector<std::pair<double, std::string>>;
Ranking ranking(const Report& r, Scenario s) {
  Ranking order;
  for (const Figures& f : r.runs) {
    if (f.scenario != s || !f.skipped.empty() || f.rounds.empty() || f.no_samples()) continue;
    const double takeover = in_us(f.of(Latency::takeover).percentile(50'000));
    const double speed = s != Scenario::crash ? f.grants_per_s()
                         : takeover > 0       ? 1e12 / takeover
                                              : 0;
    if (speed > 0) order.emplace_back(speed, target_name(f));
  }
  std::ranges::sort(order, std::greater{});
  return order;
}

// Returns a remark if the table shows servers beside locks that work on this machine alone; else
// an empty text.
std::string unlike_servers(const Plan& p, const Ranking& order) {
  std::string names;
  std::size_t local = 0;
  for (const Target& t : p.targets) {
    const std::string name = fmt::format("{} {}", t.backend, t.recipe);
    const bool ranked =
        std::ranges::any_of(order, [&](const auto& one) { return one.second == name; });
    if (!ranked || t.traits->liveness != Liveness::process) continue;
    ++local;
    add_part(names, name);
  }
  if (local == 0 || local == order.size()) return {};
  return fmt::format(
      "{}: locks of this machine alone, which are not written to disk at each grant; the others "
      "are asked through a connection",
      names);
}

Table table_of(const Plan& p, const Report& r, Scenario s) {
  Table t;
  t.title = heading(p, s);
  for (const Column& c : columns)
    if (c.scenarios & in(s)) {
      t.groups.emplace_back(c.group);
      t.head.emplace_back(c.head);
    }
  for (const Figures& f : r.runs) {
    if (f.scenario != s) continue;
    if (!f.skipped.empty()) t.remarks.push_back(fmt::format("{}: {}", target_name(f), f.skipped));
    if (!f.skipped.empty() || f.rounds.empty()) continue;
    if (f.no_samples()) {
      t.remarks.push_back(fmt::format("{}: no samples: {}", target_name(f), why_no_samples(f)));
      continue;
    }
    Row& row = t.rows.emplace_back();
    for (const Column& c : columns)
      if (c.scenarios & in(s)) row.push_back(c.cell(f));
  }
  if (std::string unlike = unlike_servers(p, ranking(r, s)); !unlike.empty())
    t.remarks.insert(t.remarks.begin(), std::move(unlike));
  return t;
}

std::string compared(double fast, double slow) {
  const std::string times = ratio(fast / slow);
  return times == "1.0" ? "as fast as" : times + " times as fast as";
}

// Shows the name of a group above its first column only.
Row without_repeats(Row groups) {
  for (std::size_t i = groups.size(); i > 1; --i)
    if (groups[i - 1] == groups[i - 2]) groups[i - 1].clear();
  return groups;
}

// Joins the parts with dots, in lines of at most 80 columns.
std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  std::size_t column = 0;
  for (const std::string& part : parts) {
    const std::size_t more = columns_of(part) + 3;
    const bool fits = column == 0 || column + more <= 80;
    text += fmt::format("{}{}", text.empty() ? "" : fits ? " · " : "\n", part);
    column = fits ? column + more : more;
  }
  return text;
}

}  // namespace

std::string target_name(const Figures& f) { return fmt::format("{} {}", f.backend, f.recipe); }

std::string rate(const Figures& f) {
  const double median = f.grants_per_s();
  if (f.rounds.size() < 2 || median <= 0) return grouped(median);
  double farthest = 0;
  for (const double round : f.rounds) farthest = std::max(farthest, std::abs(round - median));
  return fmt::format("{} ±{:.0f}%", grouped(median), std::ceil(farthest / median * 100));
}

std::vector<std::string> settings(const Plan& p) {
  const std::string length = p.ops ? fmt::format("{} grants each", p.ops)
                                   : fmt::format("{} each", format_duration(p.duration));
  std::vector<std::string> parts{
      fmt::format("{} clients", p.clients),
      fmt::format("{} after {} warm-up", length, format_duration(warm_up(p)))};
  if (p.repeat > 1) parts.push_back(fmt::format("{} times, median ±range", p.repeat));
  if (p.hold_for > Duration::zero())
    parts.push_back(fmt::format("held for {}", format_duration(p.hold_for)));
  parts.push_back(p.rate ? fmt::format("open loop, {} per second, late starts counted", p.rate)
                         : std::string("closed loop: queueing outside the lock is hidden"));
  parts.push_back(fmt::format("prefix {} (removed at the end)", p.prefix));
  return parts;
}

std::vector<Table> tables_of(const Plan& p, const Report& r) {
  std::vector<Table> all;
  for (const Scenario s : p.scenarios) all.push_back(table_of(p, r, s));
  return all;
}

std::vector<std::string> verdict(const Report& r) {
  std::vector<std::string> lines;
  std::uint64_t checked = 0;
  for (const Figures& f : r.runs) {
    if (contended(f.scenario)) checked += f.grants;
    const std::string where = fmt::format("{} {}", target_name(f), name_of(f.scenario));
    if (f.violated())
      lines.push_back(fmt::format("FAIL  {}: {} overlaps, {} token inversions; {}", where,
                                  f.overlaps, f.inversions, f.first_violation));
    if (f.no_samples() && r.signal == 0)
      lines.push_back(fmt::format("ERROR {}: no samples: {}", where, why_no_samples(f)));
    else if (f.errors > 0)
      lines.push_back(
          fmt::format("note  {}: {} errors, the first: {}", where, f.errors, f.first_error));
    if (!f.skipped.empty()) continue;
    if (f.late > 0)
      lines.push_back(
          fmt::format("note  {}: {} holds went on past the end of their own lease", where, f.late));
    if (f.starved > 0 && contended(f.scenario) && f.grants > 0)
      lines.push_back(fmt::format("note  {}: {} of {} clients were never granted the lock", where,
                                  f.starved, f.clients));
  }
  if (r.signal) lines.push_back("note  ended early by a signal: these figures are incomplete");
  if (!r.violated() && checked > 0)
    lines.push_back(fmt::format(
        "PASS  mutual exclusion: {} contended grants checked, 0 overlaps, 0 token "
        "inversions",
        checked < 100 ? fmt::to_string(checked) : grouped(static_cast<double>(checked))));
  return lines;
}

std::string summary(const Plan& p, const Report& r) {
  if (r.violated() || r.signal) return {};
  std::string text;
  for (const Scenario s : p.scenarios) {
    const Ranking order = ranking(r, s);
    if (order.size() < 2) continue;
    const auto& [best, name] = order.front();
    text += fmt::format("{}{}{} is {} {}", text.empty() ? "" : "; ",
                        p.scenarios.size() > 1 ? fmt::format("{}: ", name_of(s)) : "", name,
                        compared(best, order[1].first), order[1].second);
    if (order.size() > 2)
      text += fmt::format(" and {} {}", compared(best, order.back().first), order.back().second);
  }
  return text;
}

std::string text_of(const Plan& p, const Report& r, std::string_view version) {
  std::vector<std::string> parts = settings(p);
  parts.insert(parts.begin(), fmt::format("dlock {} bench", version));
  std::string text = joined(parts) + '\n';
  for (const Table& t : tables_of(p, r)) {
    text += '\n' + t.title + '\n';
    std::vector<Row> rows = t.rows;
    rows.insert(rows.begin(), {without_repeats(t.groups), t.head});
    if (!t.rows.empty()) text += aligned(rows, TableOf::figures);
    for (const std::string& remark : t.remarks) text += remark + '\n';
  }
  text += '\n';
  for (const std::string& n : r.notes) text += fmt::format("note  {}\n", n);
  for (const std::string& v : verdict(r)) text += v + '\n';
  if (const std::string end = summary(p, r); !end.empty()) text += end + '\n';
  return text;
}

}  // namespace dlock::bench
