// SPDX-License-Identifier: Apache-2.0
#include "cli/grant_output.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"
#include "core/url.hpp"

namespace dlock::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* question(const Options& o) {
  switch (o.verb) {
    case Verb::renew: return "renewed";
    case Verb::release: return o.revoke ? "revoked" : "released";
    case Verb::check: return "valid";
    default: return nullptr;
  }
}

}  // namespace

std::string text_of_grant(Output form, const std::vector<Lease>& leases, const Store& store,
                          Duration ttl, const std::string& keeper) {
  const std::string family(store.traits->family), recipe(store.traits->recipe);
  const Lease& lease = leases.front();
  Handle handle = Handle::of(family, recipe, leases);
  if (!keeper.empty()) handle.extra = keeper;
  const std::string sequencer = Sequencer{.family = family,
                                          .recipe = recipe,
                                          .key = lease.key,
                                          .mode = lease.mode,
                                          .token = lease.token}
                                    .text();
  const bool permit = lease.mode == Mode::permit;
  if (form == Output::text) return handle.text() + '\n';
  if (form == Output::json) {
    Json j{{"key", lease.key.text()}};
    for (const Lease& l : leases) j["keys"].push_back(l.key.text());
    j["handle"] = handle.text();
    j["token"] = lease.token;
    j["sequencer"] = sequencer;
    j["scheme"] = store.url.scheme;
    j["recipe"] = recipe;
    j["mode"] = mode_name(lease.mode);
    j["slot"] = permit ? Json(lease.slot) : Json(nullptr);
    j["ttl_ms"] = whole_milliseconds(ttl);
    return j.dump() + '\n';
  }
  // The variables of a job of `dlock run` that mean the same here. Not DLOCK_HELD and DLOCK_GRANTS:
  // they say that a dlock supervises the job, and here none does.
  std::string text;
  const auto line = [&](std::string_view name, std::string_view value) {
    text += fmt::format("export DLOCK_{}={}\n", name, shell_quoted(value));
  };
  line("KEY", lease.key.text());
  line("TOKEN", fmt::to_string(lease.token));
  line("SEQUENCER", sequencer);
  line("HANDLE", handle.text());
  line("TTL_MS", fmt::to_string(whole_milliseconds(ttl)));
  if (permit) line("SLOT", fmt::to_string(lease.slot));
  return text;
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + '\'';
}

std::string_view mode_name(Mode m) noexcept {
  switch (m) {
    case Mode::exclusive: return "exclusive";
    case Mode::shared: return "shared";
    case Mode::permit: return "permit";
  }
  return "?";
}

std::string json_of_answer(const Options& o, const Result<run::Outcome>& outcome) {
  const char* const name = question(o);
  if (!name) return {};
  if (!outcome && (outcome.error().code == Errc::usage || outcome.error().code == Errc::config))
    return {};
  Json j{{"keys", Json::array()}};
  for (const std::string_view key : o.keys) j["keys"].push_back(printable(key));
  if (o.operand)
    if (const auto s = Sequencer::parse(*o.operand)) j["keys"].push_back(printable(s->key.text()));
  j[name] = outcome ? Json(outcome->value == status_ok) : Json(nullptr);
  j["status"] = outcome ? outcome->value : exit_status(outcome.error().code);
  if (!outcome) j["error"] = printable(outcome.error().message);
  return j.dump() + '\n';
}

std::string sh_word(std::string_view text) {
  if (printable(text) == text) return shell_quoted(text);
  std::string bytes;
  for (const char c : text) bytes += fmt::format("\\0{:03o}", static_cast<unsigned char>(c));
  return fmt::format("\"$(printf %b '{}')\"", bytes);
}

}  // namespace dlock::cli
