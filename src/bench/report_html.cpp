// SPDX-License-Identifier: Apache-2.0
// The page: tables, and charts as inline SVG that take their colours from the reader's light or
// dark preference.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "bench/report.hpp"

namespace dlock::bench {
namespace {

// of the plot in a view box of 700 x 260
constexpr double left = 64, right = 690, top = 12, bottom = 220;

constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--bg:#fcfcfb;--fg:#1d2329;--dim:#5c6670;--line:#d8dde2;--c0:#0b62b5;--c1:#b3430a;--c2:#1a7a3c;--c3:#7a3fb0;--c4:#946a00;--c5:#a8265e;--c6:#0a7d83;--c7:#555}
@media(prefers-color-scheme:dark){:root{--bg:#14181c;--fg:#e4e8ec;--dim:#98a3ad;--line:#343c44;--c0:#6fb3f5;--c1:#f59b63;--c2:#6fcf8f;--c3:#c39bf0;--c4:#e0bb4f;--c5:#f286b4;--c6:#5fd0d6;--c7:#aaa}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--bg);color:var(--fg);margin:0 auto;padding:1rem;max-width:76rem}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2.2rem}h3{font-size:.95rem;margin:.5rem 0 0;font-weight:600}
.dim{color:var(--dim)}.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font:11px system-ui,sans-serif}
.grid{stroke:var(--line)}.curve{fill:none;stroke-width:2}.faint{stroke-dasharray:3 3;stroke-width:1.2}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:.3rem 0;list-style:none}.legend i{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.4em;vertical-align:-.1em}
.fail{color:var(--c1);font-weight:700}
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

// A logarithmic axis of times, from the power of ten below the least to the one above the most.
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
           : ns < 1e6 ? fmt::format("{:.0f} us", ns / 1e3)
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
      "<div><h3>{0}</h3><svg viewBox=\"0 0 700 260\" role=img aria-label=\"{0}\">{1}</svg></div>",
      escaped(title), inside);
}

std::string curve(std::string_view kind, std::size_t colour, const std::string& points) {
  return fmt::format("<polyline class={} style=\"stroke:var(--c{})\" points=\"{}\"/>", kind, colour,
                     points);
}

// Below the marks of the horizontal axis.
std::string caption(std::string_view text) {
  return fmt::format("<text x={} y={} text-anchor=end>{}</text>", right, bottom + 34, text);
}

std::string mark(double x, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x={:.1f} y={} text-anchor={}>{}</text>", x, bottom + 18, anchor, text);
}

// Latency by percentile; the axis stretches towards 100 %: a half, a quarter, an eighth ... of the
// samples is left.
std::string distribution(std::string_view title, const std::vector<Series>& all, Latency l) {
  constexpr double most_halvings = 13.3;  // 99.99 %
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
       {std::pair{"50%", 0.5}, {"90%", 0.1}, {"99%", 0.01}, {"99.9%", 0.001}, {"99.99%", 0.0001}})
    inside += mark(std::min(x(share), right - 16), "middle", text);
  inside += caption("of all are not slower");
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

// Grants of each client, the least first: a level top is fair. Neighbouring clients share a bar if
// there are too many.
std::string fairness(const std::vector<Series>& all) {
  constexpr std::size_t most_bars = 64;
  std::string text;
  for (const Series& s : all) {
    std::vector<std::uint64_t> shares = s.figures->per_client;
    std::sort(shares.begin(), shares.end());
    if (shares.empty() || shares.back() == 0) continue;
    const double tallest = static_cast<double>(shares.back());
    const std::size_t bars = std::min(shares.size(), most_bars);
    const double width = (right - left) / static_cast<double>(bars);
    std::string inside;
    for (std::size_t i = 0; i < bars; ++i) {
      const double height =
          static_cast<double>(shares[i * shares.size() / bars]) / tallest * (bottom - top);
      inside += fmt::format(
          "<rect x={:.1f} y={:.1f} width={:.1f} height={:.1f} style=\"fill:var(--c{})\"/>",
          left + width * static_cast<double>(i), bottom - height, std::max(width - 1, 0.5), height,
          s.colour);
    }
    inside += fmt::format(
        "<line class=grid x1={0} x2={1} y1={2} y2={2} /><text x={3} y={4} "
        "text-anchor=end>{5}</text>",
        left, right, bottom, left - 6, top + 10, grouped(tallest));
    text +=
        chart(fmt::format("Grants of each client, {}: fairness {:.3f}, most overtakes {}",
                          target_name(*s.figures), s.figures->fairness(), s.figures->max_overtakes),
              inside);
  }
  return text;
}

std::string table(const Table& t) {
  std::string text = "<div class=scroll><table><tr>";
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

std::string charts(const Report& r, Scenario scenario) {
  std::vector<Series> all;
  std::vector<std::string> names;  // each target has the same colour on the whole page
  for (const Figures& f : r.runs) {
    auto name = std::find(names.begin(), names.end(), target_name(f));
    if (name == names.end()) name = names.insert(names.end(), target_name(f));
    if (f.scenario == scenario && !f.rounds.empty())
      all.push_back({&f, static_cast<std::size_t>(name - names.begin()) % 8});
  }
  std::string text = "<ul class=legend>";
  for (const Series& s : all)
    text += fmt::format("<li><i style=\"background:var(--c{})\"></i>{}</li>", s.colour,
                        escaped(target_name(*s.figures)));
  text += "</ul><div class=charts>";
  if (scenario == Scenario::crash)
    text += distribution("Next grant after the crash", all, Latency::takeover);
  else if (scenario == Scenario::renew)
    text += distribution("Renewal", all, Latency::renew) + timeline("Renewals in time", all);
  else if (scenario == Scenario::uncontended)
    text += distribution("Acquire", all, Latency::acquire) +
            distribution("Release", all, Latency::release) + timeline("Acquisitions in time", all);
  else
    text += distribution("Hand-off: from the release to the next grant", all, Latency::handoff) +
            timeline("Hand-offs in time", all) + fairness(all);
  return text + "</div>";
}

}  // namespace

std::string html_of(const Plan& p, const Report& r, std::string_view version) {
  std::string text = fmt::format(
      "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>dlock bench</title><style>{}</style><h1>dlock "
      "bench</h1><p class=dim>{}</p>",
      style, escaped(headline(p, version)));
  for (const std::string& line : verdict(r))
    text +=
        fmt::format("<p{}>{}</p>", line.starts_with("FAIL") ? " class=fail" : "", escaped(line));
  const std::vector<Table> tables = tables_of(p, r);
  for (std::size_t i = 0; i < tables.size(); ++i)
    text += fmt::format("<h2>{}</h2>{}{}", escaped(tables[i].title), table(tables[i]),
                        charts(r, p.scenarios[i]));
  if (!r.notes.empty()) text += "<h2>Notes</h2><ul>";
  for (const std::string& n : r.notes) text += fmt::format("<li>{}</li>", escaped(n));
  if (!r.notes.empty()) text += "</ul>";
  return text + "</html>\n";
}

}  // namespace dlock::bench
