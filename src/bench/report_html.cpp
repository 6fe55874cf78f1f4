// SPDX-License-Identifier: Apache-2.0
// The HTML page: tables, and charts that take their colours from the reader's light or dark
// preference. Bars are HTML, curves are inline SVG.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <ctime>
#include "bench/report.hpp"
#include "core/text.hpp"

namespace dlock::bench {
namespace {

// The edges of the plot in a view box of 480 x 250.
constexpr double left = 62, right = 466, top = 12, bottom = 206;

constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--bg:#fcfcfb;--fg:#1d2329;--dim:#5c6670;--line:#d8dde2;--good:#1a7a3c;--bad:#b3200a;--c0:#0b62b5;--c1:#b3430a;--c2:#1a7a3c;--c3:#7a3fb0;--c4:#946a00;--c5:#a8265e;--c6:#0a7d83;--c7:#555}
@media(prefers-color-scheme:dark){:root{--bg:#14181c;--fg:#e4e8ec;--dim:#98a3ad;--line:#343c44;--good:#6fcf8f;--bad:#ff8a73;--c0:#6fb3f5;--c1:#f59b63;--c2:#6fcf8f;--c3:#c39bf0;--c4:#e0bb4f;--c5:#f286b4;--c6:#5fd0d6;--c7:#aaa}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--bg);color:var(--fg);margin:0 auto;padding:1rem;max-width:76rem}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2.2rem}h3{font-size:.95rem;margin:.5rem 0 .3rem;font-weight:600}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}
.groups th{border:0;padding-bottom:0;color:var(--dim)}.groups th[colspan]{text-align:center}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem 2rem;margin-top:1rem}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:.4rem .7rem;align-items:center;font-variant-numeric:tabular-nums}
.bars i{display:block;height:1rem;min-width:2px;border-radius:2px}.bars b{font-weight:400;text-align:right}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font:12px system-ui,sans-serif}
.grid{stroke:var(--line)}.curve{fill:none;stroke-width:2}.faint{stroke-dasharray:3 3;stroke-width:1.2}
.verdict{border-left:.4rem solid;padding:.3rem .8rem;margin:.4rem 0;font-weight:600}.pass{color:var(--good)}.fail{color:var(--bad)}
dl{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.1rem 1rem;margin:1rem 0;color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
)css";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// ---- charts ------------------------------------------------------------------------------------

// A logarithmic axis of times, from the power of ten below the smallest value to the power of ten
// above the largest.
class TimeAxis {
 public:
  TimeAxis(double least_ns, double most_ns) {
    while (low_ * 10 <= least_ns) low_ *= 10;
    high_ = low_ * 10;
    while (high_ < most_ns) high_ *= 10;
  }
  double y(double ns) const noexcept {
    const double part =
        (std::log2(std::max(ns, low_)) - std::log2(low_)) / (std::log2(high_) - std::log2(low_));
    return bottom - part * (bottom - top);
  }
  std::string grid() const {
    std::string text;
    for (double v = low_; v <= high_ * 1.01; v *= 10)
      text += fmt::format(
          "<line class=grid x1={} x2={} y1={:.1f} y2={:.1f} /><text x={} y={:.1f} "
          "text-anchor=end>{}</text>",
          left, right, y(v), y(v), left - 6, y(v) + 4, unit(v));
    return text;
  }

 private:
  static std::string unit(double ns) {
    return ns < 1e3   ? fmt::format("{:.0f} ns", ns)
           : ns < 1e6 ? fmt::format("{:.0f} µs", ns / 1e3)
           : ns < 1e9 ? fmt::format("{:.0f} ms", ns / 1e6)
                      : fmt::format("{:.0f} s", ns / 1e9);
  }
  double low_ = 100, high_ = 1000;
};

struct Series {
  const Figures* figures;
  std::size_t colour;
};

double in_ns(Nanoseconds n) noexcept { return static_cast<double>(n.count()); }
double mean(const Timeline::Slot& s) noexcept {
  return in_ns(s.sum) / static_cast<double>(s.count);
}

std::string chart(std::string_view title, const std::string& inside) {
  return fmt::format(
      "<div><h3>{0}</h3><svg viewBox=\"0 0 480 250\" role=img aria-label=\"{0}\">{1}</svg></div>",
      escaped(title), inside);
}

std::string curve(std::string_view kind, std::size_t colour, const std::string& points) {
  return fmt::format("<polyline class={} style=\"stroke:var(--c{})\" points=\"{}\"/>", kind, colour,
                     points);
}

// A caption below the marks of the horizontal axis.
std::string caption(std::string_view text) {
  return fmt::format("<text x={} y={} text-anchor=end>{}</text>", right, bottom + 38, text);
}

std::string mark(double x, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x={:.1f} y={} text-anchor={}>{}</text>", x, bottom + 19, anchor, text);
}

// A bar for each target, which also shows the target's colour.
template <class Value, class Text>
std::string bars(std::string_view title, const std::vector<Series>& all, Value value, Text text) {
  double most = 0;
  for (const Series& s : all) most = std::max(most, value(*s.figures));
  if (most <= 0) return {};
  std::string inside;
  for (const Series& s : all)
    inside += fmt::format(
        "<span>{}</span><div><i style=\"width:{:.1f}%;background:var(--c{})\"></i></div><b>{}</b>",
        escaped(target_name(*s.figures)), value(*s.figures) / most * 100, s.colour,
        text(*s.figures));
  return fmt::format("<div><h3>{}</h3><div class=bars>{}</div></div>", title, inside);
}

std::string rates(std::string_view title, const std::vector<Series>& all) {
  return bars(
      title, all, [](const Figures& f) { return f.grants_per_s(); }, rate);
}

// Draws latency by percentile. The horizontal axis stretches towards 100 %: 0 to 50 %, 50 to 75 %
// and 75 to 87.5 % of the samples have the same width, and so on.
std::string distribution(std::string_view title, const std::vector<Series>& all, Latency l) {
  constexpr double most_halvings = 13.3;  // the axis ends at 99.99 % of the samples
  double least = 1e18, most = 0;
  for (const Series& s : all) {
    const Histogram& h = s.figures->of(l);
    if (h.count() == 0) continue;
    least = std::min(least, std::max(in_ns(h.min()), 1.0));
    most = std::max(most, in_ns(h.max()));
  }
  if (most <= 0) return {};
  const TimeAxis axis(least, most);
  const auto x = [&](double share_left) {
    return left + -std::log2(share_left) / most_halvings * (right - left);
  };
  std::string inside = axis.grid();
  for (const auto& [text, share] :
       {std::pair{"p50", 0.5}, {"p90", 0.1}, {"p99", 0.01}, {"p99.9", 0.001}, {"p99.99", 0.0001}})
    inside += mark(std::min(x(share), right - 16), "middle", text);
  inside += caption("percentile");
  for (const Series& s : all) {
    const Histogram& h = s.figures->of(l);
    if (h.count() == 0) continue;
    std::string points;
    for (int step = 0; step <= 66; ++step) {
      const double share = std::exp2(-step / 5.0);
      const auto per_100000 = static_cast<std::uint32_t>((1 - share) * 100'000);
      points += fmt::format("{:.1f},{:.1f} ", std::min(x(share), right),
                            axis.y(in_ns(h.percentile(per_100000))));
    }
    inside += curve("curve", s.colour, points);
  }
  return chart(title, inside);
}

std::string timeline(std::string_view title, const std::vector<Series>& all) {
  double least = 1e18, most = 0, end = 0;
  for (const Series& s : all) {
    const Timeline& t = *s.figures->timeline;
    for (std::size_t i = 0; i < t.all().size(); ++i) {
      const Timeline::Slot& slot = t.all()[i];
      if (slot.count == 0) continue;
      least = std::min(least, mean(slot));
      most = std::max(most, in_ns(slot.max));
      end = std::max(end, static_cast<double>(i + 1) * in_ns(t.width()));
    }
  }
  if (most <= 0 || end <= 0) return {};
  const TimeAxis axis(std::max(least, 1.0), most);
  std::string inside = axis.grid();
  for (int i = 0; i <= 4; ++i)
    inside += mark(left + (right - left) * i / 4, i == 4 ? "end" : "middle",
                   fmt::format("{:.1f} s", end * i / 4e9));
  inside += caption("mean (line) and worst (dashes) of each moment, last round");
  for (const Series& s : all) {
    const Timeline& t = *s.figures->timeline;
    std::string means, worst;
    for (std::size_t i = 0; i < t.all().size(); ++i) {
      const Timeline::Slot& slot = t.all()[i];
      if (slot.count == 0) continue;
      const double x =
          left + (static_cast<double>(i) + 0.5) * in_ns(t.width()) / end * (right - left);
      means += fmt::format("{:.1f},{:.1f} ", x, axis.y(mean(slot)));
      worst += fmt::format("{:.1f},{:.1f} ", x, axis.y(in_ns(slot.max)));
    }
    inside += curve("curve", s.colour, means) + curve("\"curve faint\"", s.colour, worst);
  }
  return chart(title, inside);
}

std::string charts(const Report& r, Scenario scenario) {
  std::vector<Series> all;
  std::vector<std::string> names;  // each name has the same colour on the whole page
  for (const Figures& f : r.runs) {
    auto name = std::ranges::find(names, target_name(f));
    if (name == names.end()) name = names.insert(names.end(), target_name(f));
    if (f.scenario == scenario && !f.rounds.empty())
      all.push_back({&f, static_cast<std::size_t>(name - names.begin()) % 8});
  }
  std::string text = "<div class=charts>";
  if (scenario == Scenario::crash)
    text += bars(
        "Next grant after the crash, median", all,
        [](const Figures& f) { return in_ns(f.of(Latency::takeover).percentile(50'000)); },
        [](const Figures& f) { return short_time(f.of(Latency::takeover).percentile(50'000)); });
  else if (scenario == Scenario::renew)
    text += rates("Renewals per second", all) + distribution("Renewal", all, Latency::renew) +
            timeline("Renewals in time", all);
  else if (scenario == Scenario::uncontended)
    text += rates("Grants per second", all) + distribution("Acquire", all, Latency::acquire) +
            distribution("Release", all, Latency::release) + timeline("Acquisitions in time", all);
  else
    text += rates("Grants per second", all) +
            distribution("Hand-off: from the release to the next grant", all, Latency::handoff) +
            timeline("Hand-offs in time", all);
  return text + "</div>";
}

// ---- words and figures -------------------------------------------------------------------------

std::string table(const Table& t) {
  std::string text = "<div class=scroll><table><tr class=groups>";
  for (std::size_t i = 0, next = 0; i < t.groups.size(); i = next) {
    while (next < t.groups.size() && t.groups[next] == t.groups[i]) ++next;
    if (t.groups[i].empty()) next = i + 1;
    text += fmt::format("<th{}>{}</th>", next > i + 1 ? fmt::format(" colspan={}", next - i) : "",
                        escaped(t.groups[i]));
  }
  text += "</tr><tr>";
  for (const std::string& h : t.head) text += fmt::format("<th>{}</th>", escaped(h));
  text += "</tr>";
  for (const auto& row : t.rows) {
    text += "<tr>";
    for (const std::string& cell : row) text += fmt::format("<td>{}</td>", escaped(cell));
    text += "</tr>";
  }
  text += "</table></div>";
  for (const std::string& remark : t.remarks) text += fmt::format("<p>{}</p>", escaped(remark));
  return text;
}

std::string day_and_time(std::int64_t micros) {
  const std::time_t seconds = micros / 1'000'000;
  std::tm t{};
  if (!::gmtime_r(&seconds, &t)) return "?";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                     t.tm_hour, t.tm_min);
}

std::string dotted(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) add_part(text, escaped(part), " · ");
  return text;
}

// Returns when, where and on what the figures were measured, because figures without these facts
// soon mean nothing.
std::string circumstances(const Plan& p, const Report& r, std::string_view version) {
  const Host& h = r.host;
  const std::vector<std::pair<std::string_view, std::string>> facts{
      {"date", day_and_time(r.began)},
      {"host", escaped(fmt::format("{}, {} {} {}", h.name, h.system, h.kernel, h.machine))},
      {"processors",
       escaped(fmt::format("{}{}{}", h.processors, h.processor.empty() ? "" : " × ", h.processor))},
      {"servers", dotted(r.servers)},
      {"dlock", escaped(version)},
      {"settings", dotted(settings(p))}};
  std::string text = "<dl>";
  for (const auto& [name, fact] : facts)
    if (!fact.empty()) text += fmt::format("<dt>{}</dt><dd>{}</dd>", name, fact);
  return text + "</dl>";
}

}  // namespace

std::string html_of(const Plan& p, const Report& r, std::string_view version) {
  std::string text = fmt::format(
      "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>dlock bench</title><style>{}</style><h1>dlock "
      "bench</h1>",
      style);
  std::vector<std::string> notes = r.notes;
  for (const std::string& line : verdict(r)) {
    constexpr std::string_view note = "note  ";
    if (line.starts_with(note)) notes.push_back(line.substr(note.size()));
    else
      text += fmt::format("<p class=\"verdict {}\">{}</p>",
                          line.starts_with("PASS") ? "pass" : "fail", escaped(line));
  }
  if (const std::string end = summary(p, r); !end.empty())
    text += fmt::format("<p>{}</p>", escaped(end));
  text += circumstances(p, r, version);
  const std::vector<Table> tables = tables_of(p, r);
  for (std::size_t i = 0; i < tables.size(); ++i)
    text += fmt::format("<h2>{}</h2>{}{}", escaped(tables[i].title), table(tables[i]),
                        charts(r, p.scenarios[i]));
  if (!notes.empty()) text += "<h2>Notes</h2><ul>";
  for (const std::string& n : notes) text += fmt::format("<li>{}</li>", escaped(n));
  if (!notes.empty()) text += "</ul>";
  return text + "</html>\n";
}

}  // namespace dlock::bench
