// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "bench/report.hpp"
#include "bench/text.hpp"
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

void add_quantiles(Table& t, std::string_view what, std::initializer_list<std::size_t> which) {
  bool first = true;
  for (const std::size_t q : which) {
    t.head.push_back(first ? fmt::format("{} {}", what, quantiles[q].shown)
                           : std::string(quantiles[q].shown));
    first = false;
  }
}
void add_quantiles(std::vector<std::string>& row, const Histogram& h,
                   std::initializer_list<std::size_t> which) {
  for (const std::size_t q : which) row.push_back(times(h, quantiles[q].per_100000));
}

// "12 300", or with several rounds "12 300 [11 900-12 800]".
std::string rate(const Figures& f) {
  if (f.rounds.size() < 2) return grouped(f.grants_per_s());
  const auto less = [](const Round& a, const Round& b) { return a.grants_per_s < b.grants_per_s; };
  const auto [low, high] = std::minmax_element(f.rounds.begin(), f.rounds.end(), less);
  return fmt::format("{} [{}-{}]", grouped(f.grants_per_s()), grouped(low->grants_per_s),
                     grouped(high->grants_per_s));
}

std::string or_dash(std::optional<double> v) {
  return v ? fmt::format("{:.2f}", *v) : std::string("-");
}

std::vector<std::string> row_of(const Figures& f) {
  std::vector<std::string> row{target_name(f)};
  if (f.scenario == Scenario::crash) {
    const Histogram& h = f.of(Latency::takeover);
    row.push_back(fmt::format("{}", h.count()));
    row.push_back(times(h, 50'000));
    row.push_back(h.count() ? short_time(h.min()) : "-");
    row.push_back(times(h, 100'000));
    return row;
  }
  row.push_back(rate(f));
  if (f.scenario == Scenario::renew) {
    add_quantiles(row, f.of(Latency::renew), {0, 1, 2, 3, 4});
    row.push_back(f.leases_kept() ? grouped(*f.leases_kept()) : "-");
  } else if (f.scenario == Scenario::uncontended) {
    add_quantiles(row, f.of(Latency::acquire), {0, 1, 2, 3, 4});
    add_quantiles(row, f.of(Latency::release), {0, 2});
  } else {
    add_quantiles(row, f.of(Latency::handoff), {0, 2, 4});
    add_quantiles(row, f.of(Latency::acquire), {0, 2});
    row.push_back(fmt::format("{:.2f}", f.fairness()));
    row.push_back(fmt::format("{}", f.max_overtakes));
    row.push_back(short_time(f.longest_wait));
    row.push_back(or_dash(f.wakeups_per_grant()));
  }
  row.push_back(fmt::format("{:.2f}", f.commands_per_grant()));
  if (f.scenario == Scenario::uncontended) row.push_back(short_time(f.rtt));
  row.push_back(fmt::format("{}", f.errors));
  if (contended(f.scenario)) row.push_back(fmt::format("{}", f.overlaps));
  return row;
}

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
      "{}: locks of this machine alone, which are not written to disk at each grant; "
      "the others are asked through a connection",
      names);
}

Table table_of(const Plan& p, const Report& r, Scenario s) {
  Table t;
  t.title = heading(p, s);
  t.head = {"backend"};
  if (s == Scenario::crash) {
    t.head.insert(t.head.end(), {"crashes", "next grant after", "min", "max"});
  } else if (s == Scenario::renew) {
    t.head.push_back("renewals/s");
    add_quantiles(t, "renew", {0, 1, 2, 3, 4});
    t.head.insert(t.head.end(), {"leases kept alive", "cmds", "err"});
  } else if (s == Scenario::uncontended) {
    t.head.push_back("grants/s");
    add_quantiles(t, "acquire", {0, 1, 2, 3, 4});
    add_quantiles(t, "release", {0, 2});
    t.head.insert(t.head.end(), {"cmds", "rtt p50", "err"});
  } else {
    t.head.push_back("grants/s");
    add_quantiles(t, "hand-off", {0, 2, 4});
    add_quantiles(t, "wait", {0, 2});
    t.head.insert(t.head.end(),
                  {"fairness", "overtakes", "longest wait", "wakes", "cmds", "err", "overlaps"});
  }
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
    t.rows.push_back(row_of(f));
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

std::size_t width(std::string_view text) {  // characters, not bytes
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string aligned(const Table& t) {
  std::vector<std::size_t> widths;
  for (const std::string& h : t.head) widths.push_back(width(h));
  for (const auto& row : t.rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = cells[0] + std::string(widths[0] - width(cells[0]), ' ');
    for (std::size_t i = 1; i < cells.size(); ++i)
      text += "  " + std::string(widths[i] - width(cells[i]), ' ') + cells[i];
    return text + '\n';
  };
  std::string text = line(t.head);
  for (const auto& row : t.rows) text += line(row);
  return text;
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
      "dlock {} bench · {} clients · {} after {} warm-up{}{} · {} · prefix {} (removed at the end)",
      version, p.clients, length, format_duration(warm_up(p)),
      p.repeat > 1 ? fmt::format(", {} times, median [range]", p.repeat) : "",
      p.hold > Duration::zero() ? fmt::format(" · held for {}", format_duration(p.hold)) : "", loop,
      p.prefix);
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
        "PASS  mutual exclusion: {} contended grants checked, 0 overlaps, 0 token inversions",
        grouped(static_cast<double>(checked))));
  return lines;
}

std::string text_of(const Plan& p, const Report& r, std::string_view version) {
  std::string text = headline(p, version) + '\n';
  for (const Table& t : tables_of(p, r)) {
    text += '\n' + t.title + '\n';
    if (!t.rows.empty()) text += aligned(t);
    for (const std::string& remark : t.remarks) text += remark + '\n';
  }
  text += '\n';
  for (const std::string& n : r.notes) text += fmt::format("note  {}\n", n);
  for (const std::string& v : verdict(r)) text += v + '\n';
  return text;
}

std::string csv_of(const Report& r) {
  std::string text = "backend,recipe,scenario,clients,seconds,grants,grants_per_s";
  for (const std::string_view l : latency_names)
    for (const Quantile& q : quantiles) text += fmt::format(",{}_{}_us", l, q.name);
  text +=
      ",rtt_p50_us,fairness_jain,max_overtakes,commands_per_grant,wakeups_per_grant,errors,"
      "overlaps,token_inversions\n";
  for (const Figures& f : r.runs) {
    if (!f.skipped.empty()) continue;
    text += fmt::format("{},{},{},{},{:.3f},{},{:.3f}", f.backend, f.recipe, name_of(f.scenario),
                        f.clients, f.seconds, f.grants, f.grants_per_s());
    for (const Histogram& h : f.latency)
      for (const Quantile& q : quantiles)
        text += h.count() ? fmt::format(",{:.3f}", in_us(h.percentile(q.per_100000)))
                          : std::string(",");
    text += fmt::format(",{:.3f},{:.4f},{},{:.3f},{},{},{},{}\n", in_us(f.rtt), f.fairness(),
                        f.max_overtakes, f.commands_per_grant(),
                        f.wakes ? fmt::format("{:.3f}", f.wakeups_per_grant().value_or(0)) : "",
                        f.errors, f.overlaps, f.inversions);
  }
  return text;
}

}  // namespace dlock::bench
