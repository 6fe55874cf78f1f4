// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/grant.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

Result<Sequencer> parse_sequencer(std::string_view text, const Store& store) {
  auto s = Sequencer::parse(text);
  if (!s)
    return fail(s.error().code, "check: {}{}", s.error().message,
                text.starts_with("v1:") ? "" : "; a key goes with --token, --handle or --key");
  if (s->family != store.traits->family || s->recipe != store.traits->recipe)
    return fail(Errc::usage,
                "check: {} is a sequencer of {}.{}, but {} is {}.{}: name the same one",
                quoted(text), printable(s->family), printable(s->recipe), store.called,
                store.traits->family, store.traits->recipe);
  return s;
}

Result<Validity> check_one(const Key& key, const GrantId& grant, Backend& backend,
                           const Trace& trace) {
  Traced what{.request = "check", .key = key.text()};
  if (const auto* owner = std::get_if<Owner>(&grant)) what.owner = *owner;
  else what.token = std::get<FencingToken>(grant);
  return trace.around(what, [&] { return backend.check(key, grant); });
}

}  // namespace

Result<run::Outcome> command_check(const GrantOptions& o) {
  TRY(trace, Trace::open(o.trace));
  TRY(opened, open_store(o));
  TRY(keys, parse_keys(o));
  std::optional<FencingToken> token = o.token;
  std::optional<Handle> handle;
  std::optional<run::KeeperAnswer> kept;
  if (o.operand) {
    TRY(sequencer, parse_sequencer(*o.operand, opened.store));
    keys = {sequencer.key};
    token = sequencer.token;
  } else if (!token) {
    TRY(h, require_handle(o, opened.store));
    TRY(answer, query_keeper_of(h, "check"));
    handle = std::move(h);
    kept = answer;
  }

  bool valid = !kept || kept == run::KeeperAnswer::done;
  for (const Key& key : keys) {  // all keys of the grant must be held
    if (kept) break;
    const GrantId grant = token ? GrantId{*token} : GrantId{handle->lease(key).owner};
    TRY(answer, check_one(key, grant, *opened.backend, trace));
    valid = valid && answer == Validity::valid;
  }
  if (o.verbosity > 0)
    say(fmt::format("{}: the grant is {}", printable(keys.front().text()),
                    valid ? "valid" : "stale"));
  return ended(valid ? status_ok : status_stale);
}

}  // namespace dlock::cli
