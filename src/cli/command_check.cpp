// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "cli/command.hpp"
#include "cli/handle.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

// What is checked: a token, or the content of a handle.
struct CheckedGrant {
  std::vector<Key> keys;
  std::optional<FencingToken> token;
  std::optional<Handle> handle{};
};

Result<CheckedGrant> from_sequencer(std::string_view text, const Store& store) {
  const auto s = Sequencer::parse(text);
  if (!s)
    return fail(
        s.error().code,
        fmt::format("check: {}{}", s.error().message,
                    text.starts_with("v1:") ? "" : "; a key goes with --token, --handle or --key"));
  if (s->family != store.traits->family || s->recipe != store.traits->recipe)
    return fail(Errc::usage,
                fmt::format("check: {} is a sequencer of {}.{}, but {} is {}.{}: name the same one",
                            quoted(text), printable(s->family), printable(s->recipe), store.called,
                            store.traits->family, store.traits->recipe));
  return CheckedGrant{.keys = {s->key}, .token = s->token};
}

Result<CheckedGrant> find_grant(const Options& o, const Store& store) {
  if (o.operand) return from_sequencer(*o.operand, store);
  TRY(keys, parse_keys(o));
  if (o.token) return CheckedGrant{.keys = std::move(keys), .token = o.token};
  TRY(handle, require_handle(o, store));
  return CheckedGrant{.keys = std::move(keys), .token = std::nullopt, .handle = std::move(handle)};
}

Result<Validity> check_one(const Key& key, const CheckedGrant& grant, Backend& backend,
                           const Trace& trace) {
  const Owner owner = grant.token ? Owner{} : grant.handle->lease(key).owner;
  const Traced what{.request = "check",
                    .key = key.text(),
                    .token = grant.token,
                    .owner = grant.token ? "" : owner.hex().substr(0, 8)};
  return trace.around(
      what,
      [&] { return backend.check(key, grant.token ? GrantId{*grant.token} : GrantId{owner}); },
      [](Validity v) { return v == Validity::valid; });
}

}  // namespace

Result<run::Outcome> command_check(const Options& o) {
  TRY(trace, Trace::open(o.trace));
  TRY(opened, open_store(o));
  TRY(grant, find_grant(o, opened.store));

  bool valid = true;
  TRY(kept, grant.handle ? ask_keeper_of(*grant.handle, "check")
                         : Result<std::optional<run::KeeperAnswer>>{});
  if (kept) {
    valid = kept == run::KeeperAnswer::done;
  } else {
    for (const Key& key : grant.keys) {  // all keys of the grant must be held
      TRY(answer, check_one(key, grant, *opened.backend, trace));
      valid = valid && answer == Validity::valid;
    }
  }
  if (o.verbosity > 0)
    say(fmt::format("{}: the grant is {}", printable(grant.keys.front().text()),
                    valid ? "valid" : "stale"));
  return ended(valid ? status_ok : status_stale);
}

}  // namespace dlock::cli
