// SPDX-License-Identifier: Apache-2.0
#include "support/status_events.hpp"

namespace dlock::test {

Event parse_event(const std::string& line) {
  Event e;
  e.all = nlohmann::json::parse(line, nullptr, false);
  if (!e.all.is_object() || !e.all.contains("event") || !e.all["event"].is_string() ||
      !e.all.contains("t") || !e.all["t"].is_number())
    give_up("not an event: '" + line + "'");
  e.name = e.all["event"];
  e.t = e.all["t"];
  return e;
}

std::vector<Event> parse_events(const std::string& text) {
  std::vector<Event> events;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
    events.push_back(parse_event(text.substr(at, end - at)));
  return events;
}

const Event* find(const std::vector<Event>& events, std::string_view name) {
  for (const Event& e : events)
    if (e.name == name) return &e;
  return nullptr;
}

std::vector<Grant> grants_in(const std::string& trace) {
  std::vector<Grant> grants;
  for (std::size_t at = 0, end; (end = trace.find('\n', at)) != trace.npos; at = end + 1) {
    const auto line = nlohmann::json::parse(trace.substr(at, end - at), nullptr, false);
    if (!line.is_object() || !line.contains("t"))
      give_up("not a line of history: '" + trace.substr(at, end - at) + "'");
    if (line.value("ev", "") == "ok" && line.contains("deadline"))
      grants.push_back({line["t"].get<double>() / 1e9, line["deadline"].get<double>() / 1e9});
  }
  return grants;
}

std::string names(const std::vector<Event>& events) {
  std::string all;
  for (const Event& e : events) all += (all.empty() ? "" : " ") + e.name;
  return all;
}

std::optional<Event> EventStream::wait(std::string_view name, double seconds) {
  for (const double until = boot_now() + seconds;;) {
    const auto line = lines_.next(until - boot_now());
    if (!line) return std::nullopt;
    seen.push_back(parse_event(*line));
    if (seen.back().name == name) return seen.back();
  }
}

std::vector<Event>& EventStream::rest(double seconds) {
  const double until = boot_now() + seconds;
  while (const auto line = lines_.next(until - boot_now())) seen.push_back(parse_event(*line));
  return seen;
}

}  // namespace dlock::test
