// SPDX-License-Identifier: Apache-2.0
#include "cli/answer.hpp"
#include <nlohmann/json.hpp>
#include "core/exit_status.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

const char* question(const Options& o) {
  switch (o.verb) {
    case Verb::renew: return "renewed";
    case Verb::release: return o.revoke ? "revoked" : "released";
    case Verb::check: return "valid";
    default: return nullptr;
  }
}

}  // namespace

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

}  // namespace dlock::cli
