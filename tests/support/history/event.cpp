// SPDX-License-Identifier: Apache-2.0
#include "history/event.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace dlock::history {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, What>, 14> names{
    {{"invoke", What::invoke},
     {"ok", What::ok},
     {"fail", What::fail},
     {"info", What::info},
     {"queued", What::queued},
     {"child_start", What::child_start},
     {"alive", What::alive},
     {"term_sent", What::term_sent},
     {"kill_sent", What::kill_sent},
     {"tree_dead", What::tree_dead},
     {"exit", What::exit},
     {"write", What::write},
     {"fault", What::fault},
     {"left", What::left}}};

template <class T>
void take(const Json& from, const char* name, T& into) {
  if (const auto it = from.find(name); it != from.end()) into = it->get<typename T::value_type>();
}

void take(const Json& from, const char* name, std::string& into) {
  if (const auto it = from.find(name); it != from.end()) into = it->get<std::string>();
}

}  // namespace

std::optional<Event> parse(std::string_view line) {
  try {
    const Json j = Json::parse(line);
    const std::string ev = j.at("ev").get<std::string>();
    const auto named =
        std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == ev; });
    if (named == names.end()) return std::nullopt;
    Event e;
    e.t = j.at("t").get<std::int64_t>();
    e.pid = j.value("pid", std::int64_t{0});
    e.what = named->second;
    take(j, "f", e.f);
    take(j, "key", e.key);
    take(j, "owner", e.owner);
    take(j, "mode", e.mode);
    take(j, "name", e.name);
    take(j, "phase", e.phase);
    take(j, "token", e.token);
    take(j, "deadline", e.deadline);
    take(j, "value", e.value);
    take(j, "limit", e.limit);
    take(j, "code", e.code);
    e.accepted = j.value("accepted", false);
    e.fenced_only = j.value("fenced_only", false);
    e.line = line;
    return e;
  } catch (const Json::exception&) { return std::nullopt; }
}

void read(std::string_view name, std::string_view content, Reading& into) {
  for (std::size_t number = 1; !content.empty(); ++number) {
    const std::size_t end = content.find('\n');
    if (end == std::string_view::npos) {
      ++into.torn;
      return;
    }
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end + 1);
    if (line.empty()) continue;
    auto event = parse(line);
    if (!event) {
      if (into.error.empty())
        into.error = fmt::format("{}:{}: not an event of a history: {}", name, number, line);
      return;
    }
    into.events.push_back(std::move(*event));
  }
}

void sort_by_time(Reading& r) {
  std::stable_sort(r.events.begin(), r.events.end(),
                   [](const Event& a, const Event& b) { return a.t < b.t; });
}

}  // namespace dlock::history
