// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "bench/report.hpp"
#include "core/duration.hpp"

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

// "12 300", or with several rounds "12 300 [11 900-12 800]".
std::string rate(const Figures& f) {
  if (f.rounds.size() < 2) return grouped(f.grants_per_s());
  const auto [low, high] = std::minmax_element(f.rounds.begin(), f.rounds.end());
  return fmt::format("{} [{}-{}]", grouped(f.grants_per_s()), grouped(*low), grouped(*high));
}

std::string count(std::uint64_t n) { return fmt::to_string(n); }
std::string ratio_or_dash(std::optional<double> v) { return v ? fmt::format("{:.2f}", *v) : "-"; }

template <Latency L, std::uint32_t Per100000>
std::string time_of(const Figures& f) {
  return times(f.of(L), Per100000);
}

constexpr unsigned in(Scenario s) noexcept { return 1U << static_cast<unsigned>(s); }
constexpr unsigned alone = in(Scenario::uncontended), renewing = in(Scenario::renew),
                   crash = in(Scenario::crash), everywhere = ~0U,
                   contention = in(Scenario::handoff) | in(Scenario::shared) | in(Scenario::limit);

struct Column {
  unsigned scenarios;  // that have it
  std::string_view head;
  std::string (*cell)(const Figures&);
};
constexpr Column columns[] = {
    {everywhere, "backend", target_name},
    {crash, "crashes", [](const Figures& f) { return count(f.of(Latency::takeover).count()); }},
    {crash, "next grant after", time_of<Latency::takeover, 50'000>},
    {crash, "min",
     [](const Figures& f) {
       const Histogram& h = f.of(Latency::takeover);
       return h.count() ? short_time(h.min()) : "-";
     }},
    {crash, "max", time_of<Latency::takeover, 100'000>},
    {alone | contention, "grants/s", rate},
    {renewing, "renewals/s", rate},
    {renewing, "renew p50", time_of<Latency::renew, 50'000>},
    {renewing, "p90", time_of<Latency::renew, 90'000>},
    {renewing, "p99", time_of<Latency::renew, 99'000>},
    {renewing, "p99.9", time_of<Latency::renew, 99'900>},
    {renewing, "max", time_of<Latency::renew, 100'000>},
    {renewing, "leases kept alive",
     [](const Figures& f) { return f.leases_kept() ? grouped(*f.leases_kept()) : "-"; }},
    {alone, "acquire p50", time_of<Latency::acquire, 50'000>},
    {alone, "p90", time_of<Latency::acquire, 90'000>},
    {alone, "p99", time_of<Latency::acquire, 99'000>},
    {alone, "p99.9", time_of<Latency::acquire, 99'900>},
    {alone, "max", time_of<Latency::acquire, 100'000>},
    {alone, "release p50", time_of<Latency::release, 50'000>},
    {alone, "p99", time_of<Latency::release, 99'000>},
    {contention, "hand-off p50", time_of<Latency::handoff, 50'000>},
    {contention, "p99", time_of<Latency::handoff, 99'000>},
    {contention, "max", time_of<Latency::handoff, 100'000>},
    {contention, "wait p50", time_of<Latency::acquire, 50'000>},
    {contention, "p99", time_of<Latency::acquire, 99'000>},
    {contention, "fairness", [](const Figures& f) { return fmt::format("{:.2f}", f.fairness()); }},
    {contention, "overtakes", [](const Figures& f) { return count(f.max_overtakes); }},
    {contention, "longest wait", [](const Figures& f) { return short_time(f.longest_wait); }},
    {contention, "wakes", [](const Figures& f) { return ratio_or_dash(f.wakeups_per_grant()); }},
    {everywhere & ~crash, "cmds",
     [](const Figures& f) { return fmt::format("{:.2f}", f.commands_per_grant()); }},
    {alone, "rtt p50", [](const Figures& f) { return short_time(f.rtt); }},
    {everywhere & ~crash, "err", [](const Figures& f) { return count(f.errors); }},
    {contention, "overlaps", [](const Figures& f) { return count(f.overlaps); }},
};

std::string why_no_samples(const Figures& f) {
  if (!f.first_error.empty()) return f.first_error;
  return f.scenario == Scenario::crash ? "no waiter was granted the lock after a crash"
                                       : "no grant within the time of the measurement";
}

// What a ranking beside servers leaves out.
std::string unlike_servers(const Plan& p,
                           const std::vector<std::pair<double, std::string>>& order) {
  std::string names;
  std::size_t local = 0;
  for (const Target& t : p.targets) {
    const std::string name = fmt::format("{} {}", t.backend, t.recipe);
    const bool ranked = std::any_of(order.begin(), order.end(),
                                    [&](const auto& one) { return one.second == name; });
    if (!ranked || t.traits->liveness != Liveness::process) continue;
    ++local;
    names += (names.empty() ? "" : ", ") + name;
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
    if (c.scenarios & in(s)) t.head.emplace_back(c.head);
  const bool takeover = s == Scenario::crash;
  std::vector<std::pair<double, std::string>> order;
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
    const double figure =
        takeover ? in_us(f.of(Latency::takeover).percentile(50'000)) : f.grants_per_s();
    if (figure > 0) order.emplace_back(takeover ? 1e12 / figure : figure, target_name(f));
  }
  if (order.size() < 2) return t;
  std::sort(order.begin(), order.end(), std::greater{});
  std::string ratios = fmt::format("{} is ", order.front().second);
  for (std::size_t i = 1; i < order.size(); ++i)
    ratios += fmt::format("{}{}× {}", i > 1 ? ", " : "",
                          ratio(order.front().first / order[i].first), order[i].second);
  t.remarks.insert(t.remarks.begin(), std::move(ratios));
  if (std::string unlike = unlike_servers(p, order); !unlike.empty())
    t.remarks.insert(t.remarks.begin() + 1, std::move(unlike));
  return t;
}

}  // namespace

std::string target_name(const Figures& f) { return fmt::format("{} {}", f.backend, f.recipe); }

std::string headline(const Plan& p, std::string_view version) {
  const std::string length = p.ops ? fmt::format("{} grants each", p.ops)
                                   : fmt::format("{} each", format_duration(p.duration));
  const std::string loop =
      p.rate ? fmt::format("open loop, {} per second, late starts counted", p.rate)
             : std::string("closed loop: queueing outside the lock is hidden");
  return fmt::format(
      "dlock {} bench · {} clients · {} after {} warm-up{}{} · {} · prefix {} "
      "(removed at the end)",
      version, p.clients, length, format_duration(warm_up(p)),
      p.repeat > 1 ? fmt::format(", {} times, median [range]", p.repeat) : "",
      p.hold_for > Duration::zero() ? fmt::format(" · held for {}", format_duration(p.hold_for))
                                    : "",
      loop, p.prefix);
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
    lines.push_back(
        fmt::format("PASS  mutual exclusion: {} contended grants checked, 0 overlaps, 0 token "
                    "inversions",
                    grouped(static_cast<double>(checked))));
  return lines;
}

std::string text_of(const Plan& p, const Report& r, std::string_view version) {
  std::string text = headline(p, version) + '\n';
  for (const Table& t : tables_of(p, r)) {
    text += '\n' + t.title + '\n';
    std::vector<Row> rows = t.rows;
    rows.insert(rows.begin(), t.head);
    if (!t.rows.empty()) text += aligned(rows, TableOf::figures);
    for (const std::string& remark : t.remarks) text += remark + '\n';
  }
  text += '\n';
  for (const std::string& n : r.notes) text += fmt::format("note  {}\n", n);
  for (const std::string& v : verdict(r)) text += v + '\n';
  return text;
}

}  // namespace dlock::bench
