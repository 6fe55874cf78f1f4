// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include "cli/grant.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"
#include "report/lines.hpp"

namespace dlock::cli {
namespace {

using Json = nlohmann::ordered_json;

// The state if the store cannot be reached, or may have lost the key; "error" says which is the
// case.
constexpr std::string_view unknown_state = "unknown";

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(printable(text));
}

Json number_or_null(std::int64_t n) { return n > 0 ? Json(n) : Json(nullptr); }

Json milliseconds_or_null(const std::optional<Duration>& d) {
  return d ? Json(whole_milliseconds(*d)) : Json(nullptr);
}

void add(Json& to, const Identity& i) {
  to["limit"] = number_or_null(i.limit);
  to["host"] = text_or_null(i.host);
  to["pid"] = number_or_null(i.pid);
  to["user"] = text_or_null(i.user_name());
  to["reason"] = text_or_null(i.reason);
  to["asked_at"] = i.since > 0 ? Json(run::utc(i.since)) : Json(nullptr);
}

// Returns what keeps the lock. Returns null if the dlock that took the lock also keeps it, or if it
// is unknown what keeps it.
Json kept_by(const KeyView& k, const HolderView& h) {
  if (is_min_hold_remainder(k, h)) return "min-hold";
  if (h.who.kept_by == Identity::KeptBy::keeper) return "keeper";
  return h.who.kept_by == Identity::KeptBy::nobody ? Json("nobody") : Json(nullptr);
}

void add(Json& to, const RunEnd& end) {
  to["exit_status"] = end.by_signal ? Json(nullptr) : Json(end.value);
  to["signal"] = end.by_signal ? Json(end.value) : Json(nullptr);
}

Json of(const ProgramEnded& e) {
  Json j{{"ended_at", run::utc(e.at)}};
  add(j, e.end);
  j["kept_by"] = Json::array();
  for (const auto& p : e.left)
    j["kept_by"].push_back({{"pid", p.pid}, {"name", printable(p.name)}});
  return j;
}

Json of(const KeyView& k, const HolderView& h) {
  Json j{{"id", printable(h.id)}, {"mode", mode_name(h.mode)}, {"token", h.token}};
  j["slot"] = h.mode == Mode::permit ? Json(h.slot) : Json(nullptr);
  add(j, h.who);
  j["age_ms"] = milliseconds_or_null(h.held());
  j["command"] = text_or_null(h.who.command);
  j["attached"] = h.attached;
  j["kept_by"] = kept_by(k, h);
  j["program_ended"] =
      h.who.ended && !is_min_hold_remainder(k, h) ? of(*h.who.ended) : Json(nullptr);
  j["vanished"] = h.vanished;
  j["revoked"] = h.revoked;
  j["lease_remaining_ms"] = milliseconds_or_null(h.remaining);
  return j;
}

Json of(const WaiterView& w) {
  Json j{{"id", printable(w.id)}, {"mode", mode_name(w.mode)}};
  add(j, w.who);
  j["age_ms"] = milliseconds_or_null(age(w.who));
  return j;
}

Json of(const LastRun& r) {
  Json j{{"token", r.token},
         {"host", text_or_null(r.who.host)},
         {"pid", number_or_null(r.who.pid)},
         {"user", text_or_null(r.who.user_name())},
         {"started_at", run::utc(r.started)},
         {"ended_at", run::utc(r.ended)},
         {"duration_ms",
          whole_milliseconds(Duration{std::max<std::int64_t>(0, r.ended - r.started)})}};
  add(j, r.end);
  return j;
}

std::string finished(Json j, const OpenStore& opened, const std::string& unknown_reason) {
  if (!unknown_reason.empty()) j["error"] = printable(unknown_reason);
  j["backend"] = Json{{"scheme", opened.store.url.scheme},
                      {"family", opened.store.traits->family},
                      {"recipe", opened.store.traits->recipe},
                      {"where", printable(opened.backend->where())}};
  j["complete"] = unknown_reason.empty();
  return j.dump() + '\n';
}

}  // namespace

Json json_of(const KeyView& k) {
  const KeyState state = state_of(k);
  Json j{{"key", printable(k.key)},
         {"state", state == KeyState::unknown ? unknown_state : state_name(state)}};
  j["mode"] = k.holders.empty() ? Json(nullptr) : Json(mode_name(k.holders.front().mode));
  j["token"] = k.fence ? Json(k.fence) : Json(nullptr);
  j["holders"] = Json::array();
  for (const HolderView& h : k.holders) j["holders"].push_back(of(k, h));
  j["waiters"] = k.waiters_known ? Json::array() : Json(nullptr);
  for (const WaiterView& w : k.waiters) j["waiters"].push_back(of(w));
  j["last_run"] = k.last_run ? of(*k.last_run) : Json(nullptr);
  j["notes"] = Json::array();
  for (const std::string& n : k.notes) j["notes"].push_back(printable(n));
  return j;
}

std::string json_of_key(const KeyView& k, const OpenStore& opened,
                        const Result<RunStarts>& starts) {
  Json j = json_of(k);
  j["last_start"] = starts && starts->last ? Json(run::utc(starts->last->at)) : Json(nullptr);
  return finished(std::move(j), opened,
                  state_of(k) == KeyState::unknown ? k.unknown_reason
                  : starts                         ? ""
                                                   : starts.error().message);
}

std::string json_of_list(const std::vector<KeyView>& keys, const OpenStore& opened,
                         const std::string& unknown_reason) {
  Json j{{"keys", Json::array()}};
  for (const KeyView& k : keys) j["keys"].push_back(json_of(k));
  return finished(std::move(j), opened, unknown_reason);
}

std::string json_of_unknown(const CommonOptions& o, const OpenStore& opened, const Error& error) {
  Json j;
  if (o.operand) {
    j["key"] = printable(*o.operand);
    j["state"] = unknown_state;
  } else {
    j["keys"] = nullptr;
  }
  return finished(std::move(j), opened, error.message);
}

}  // namespace dlock::cli
