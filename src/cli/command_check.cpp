// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "cli/trace.hpp"
#include "cli/values.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {
namespace {

// What is asked about: a token, or an owner.
struct Grant {
  Key key;
  std::optional<FencingToken> token;
  Owner owner{};
};

Result<Grant> from_sequencer(std::string_view text, const Store& store) {
  const auto s = Sequencer::parse(text);
  if (!s) return fail(s.error().code, fmt::format("check: {}", s.error().message));
  if (s->family != store.traits->family || s->recipe != store.traits->recipe)
    return fail(Errc::usage, fmt::format("check: {} is a sequencer of {}.{}, but --backend is {}.{}", quoted(text),
                                         printable(s->family), printable(s->recipe), store.traits->family, store.traits->recipe));
  return Grant{.key = s->key, .token = s->token};
}

Result<Grant> find_grant(const Options& o, const Store& store) {
  if (o.operand) return from_sequencer(*o.operand, store);
  const auto key = parse_key(o);
  if (!key) return fail(key.error());
  if (o.token) return Grant{.key = *key, .token = o.token};
  const auto handle = require_handle(o, store);
  if (!handle) return fail(handle.error());
  return Grant{.key = *key, .token = std::nullopt, .owner = handle->owner};
}

}  // namespace

Result<run::Outcome> command_check(const Options& o) {
  const auto trace = Trace::open(o.trace);
  if (!trace) return fail(trace.error());
  const auto opened = open_store(o);
  if (!opened) return fail(opened.error());
  const auto grant = find_grant(o, opened->store);
  if (!grant) return fail(grant.error());

  const Traced what{.request = "check",
                    .key = grant->key.text(),
                    .token = grant->token,
                    .owner = grant->token ? "" : grant->owner.hex().substr(0, 8)};
  const auto answer = trace->around(
      what,
      [&] {
        return grant->token ? opened->backend->check(grant->key, *grant->token)
                            : opened->backend->check(grant->key, grant->owner);
      },
      [](Validity v) { return v == Validity::valid; });
  if (!answer) return fail(answer.error());
  const bool valid = *answer == Validity::valid;
  if (o.verbosity > 0) say(fmt::format("{}: the grant is {}", printable(grant->key.text()), valid ? "valid" : "stale"));
  return ended(valid ? status_ok : status_stale);
}

}  // namespace dlock::cli
