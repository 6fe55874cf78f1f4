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

struct PrintedGrant {
  const std::vector<Lease>& all;
  const Lease& lease;  // the first
  const Store& store;
  Duration ttl;
  std::string handle, sequencer;
};

std::string json(const PrintedGrant& g) {
  nlohmann::ordered_json j;
  j["key"] = g.lease.key.text();
  for (const Lease& l : g.all) j["keys"].push_back(l.key.text());
  j["handle"] = g.handle;
  j["token"] = g.lease.token;
  j["sequencer"] = g.sequencer;
  j["scheme"] = g.store.url.scheme;
  j["recipe"] = g.store.traits->recipe;
  j["mode"] = mode_name(g.lease.mode);
  j["slot"] = nullptr;
  if (g.lease.mode == Mode::permit) j["slot"] = g.lease.slot;
  j["ttl_ms"] = whole_milliseconds(g.ttl);
  return j.dump() + '\n';
}

// The variables of a job of `dlock run` that mean the same here. Not DLOCK_HELD and DLOCK_GRANTS:
// they say that a dlock supervises the job, and here none does.
std::string env(const PrintedGrant& g) {
  std::string text;
  const auto line = [&](std::string_view name, std::string_view value) {
    text += fmt::format("export DLOCK_{}={}\n", name, shell_quoted(value));
  };
  line("KEY", g.lease.key.text());
  line("TOKEN", fmt::to_string(g.lease.token));
  line("SEQUENCER", g.sequencer);
  line("HANDLE", g.handle);
  line("TTL_MS", fmt::to_string(whole_milliseconds(g.ttl)));
  if (g.lease.mode == Mode::permit) line("SLOT", fmt::to_string(g.lease.slot));
  return text;
}

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
  const PrintedGrant g{.all = leases,
                       .lease = lease,
                       .store = store,
                       .ttl = ttl,
                       .handle = handle.text(),
                       .sequencer = Sequencer{.family = family,
                                              .recipe = recipe,
                                              .key = lease.key,
                                              .mode = lease.mode,
                                              .token = lease.token}
                                        .text()};
  switch (form) {
    case Output::text: return g.handle + '\n';
    case Output::json: return json(g);
    case Output::env: return env(g);
    case Output::csv: break;  // no form of acquire: refused before
  }
  return {};
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
  nlohmann::ordered_json j;
  j["keys"] = nlohmann::ordered_json::array();
  for (const std::string_view key : o.keys) j["keys"].push_back(printable(key));
  if (o.operand)
    if (const auto s = Sequencer::parse(*o.operand)) j["keys"].push_back(printable(s->key.text()));
  j[name] = outcome ? nlohmann::ordered_json(outcome->value == status_ok) : nullptr;
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
