// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include "cli/command.hpp"
#include "cli/grant.hpp"
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"
#include "cli/say.hpp"
#include "cli/store.hpp"
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "report/wait_line.hpp"
#include "util/terminal.hpp"
#include "util/wait.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

using View = Result<std::optional<KeyView>>;

std::vector<HolderView> holders_in(const View& view) {
  return view && *view ? (*view)->holders : std::vector<HolderView>{};
}

// Returns whether the store did not reply. If so, dlock sends no second request, which would take
// as long again. Any other error, such as an unreadable record, does not prevent the removal.
bool unanswered(const View& view) { return !view && retryable(view.error().code); }

// ---- --force -----------------------------------------------------------------------------------

bool at_a_terminal() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0; }

// Asks, reads a line from standard input, and returns whether the line begins with y or Y.
bool confirmed(std::string_view question) {
  print_on_stderr(fmt::format("dlock: {} [y/N] ", question));
  char first = 0, c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
    if (first == 0) first = c;
  return first == 'y' || first == 'Y';
}

// For --force without --token or --yes: shows the holders. At a terminal the user chooses a holder
// by its token. Without a terminal nothing is changed.
Result<std::vector<FencingToken>> choose_holders(const Key& key, const OpenStore& opened) {
  TRY(view, opened.backend->inspect(key));
  TRY_VOID(print(text_of_key(view ? *view : free_key(key), opened)));
  const bool unheld = !view || holding(*view) == 0;
  if (unheld && view && !view->unknown_reason.empty())
    return fail(Errc::unavailable, "release: {}: {}", printable(key.text()), view->unknown_reason);
  if (unheld)
    return fail(Errc::usage, "release: {} is not held; --force needs --token N or --yes",
                printable(key.text()));
  const HolderView* const first = removable(*view);
  if (!first)
    return fail(Errc::usage, "release: --force: {}: {}", printable(key.text()),
                view->holders.front().stays_because);
  const FencingToken token = first->token;
  if (token == 0)
    return fail(Errc::usage,
                "release: this holder has no token; --force needs --yes (all holders)");
  if (!at_a_terminal())
    return fail(
        Errc::usage,
        "release: --force needs --token {} (this holder and no other) or --yes (all holders)",
        token);
  std::vector<FencingToken> chosen;
  for (const HolderView& h : view->holders)
    if (h.token != 0 && !h.ended() && h.stays_because.empty() &&
        confirmed(fmt::format("remove the holder {} with token {}?", h.who.text(), h.token)))
      chosen.push_back(h.token);
  return chosen;
}

// Returns what a removed holder may still do. Its dlock learns of the removal at once or with its
// next renewal. If it cannot reach the store, it stops the job before the lease would have ended.
std::string still_runs(const HolderView& h, bool freed) {
  const std::string job =
      h.who.host.empty() ? "its job" : fmt::format("its job on {}", printable(h.who.host));
  if (!freed) return fmt::format("asked to release; the lock is free when {} has ended", job);
  const std::string may = h.remaining
                              ? fmt::format("may run up to {} more",
                                            format_duration(std::chrono::ceil<std::chrono::seconds>(
                                                std::max<Duration>(*h.remaining, 0us))))
                              : "is being ended";
  return fmt::format("removed; {} {}; the next holder may start now", job, may);
}

// Removes the holders, and prints what they may still do. `before`: a view from just before the
// removal.
Result<Released> force(const ReleaseOptions& o, const OpenStore& opened, const Key& key,
                       std::optional<FencingToken> token, const View& before) {
  auto removed = opened.backend->force_release(key, token);
  if (!removed || *removed != Released::yes || o.quiet || !before || !*before) return removed;
  const std::vector<HolderView> after = holders_in(opened.backend->inspect(key));
  for (const HolderView& h : (*before)->holders) {
    if ((token && h.token != *token) || h.vanished) continue;
    const bool freed = std::ranges::none_of(
        after, [&](const HolderView& left) { return left.token == h.token && !left.vanished; });
    say(fmt::format("{}: {}", printable(key.text()),
                    freed || h.stays_because.empty() ? still_runs(h, freed)
                                                     : "not removed: " + h.stays_because));
  }
  return removed;
}

// ---- --revoke --wait ---------------------------------------------------------------------------

constexpr Duration first_pause = 50ms, last_pause = 500ms;

// A holder with a lease learns of the request before its lease ends; a holder without a lease
// learns of it at once.
void say_asked(const Key& key, const HolderView& h) {
  const std::string within =
      h.remaining ? " within " + format_duration(std::chrono::ceil<std::chrono::seconds>(
                                     std::max<Duration>(*h.remaining, 1s)))
                  : "";
  say(fmt::format("{}: asked {} to stop; it hears of it{}", printable(key.text()), h.who.text(),
                  within.empty() ? " at once" : within));
}

std::string still_holds(const HolderView& h, const Key& key, Duration waited) {
  return fmt::format("{} was asked to stop, and still holds {} after {}", h.who.text(),
                     printable(key.text()), format_duration(waited));
}

// Waits until no revoked holder has the key. `revoked`: the holders before the request. If a
// revoked holder still has the key when the time is over, the status is 75. It is 69 if the last
// request got no reply, or if no revoked holder has the key but the store has lost a grant
// meanwhile.
Result<run::Outcome> wait_for_end(const ReleaseOptions& o, const OpenStore& opened, const Key& key,
                                  std::vector<FencingToken> revoked, Deadline began,
                                  run::WaitLine& line) {
  const bool keeps_fence = opened.store.traits->keeps_last_run;
  const Deadline end = later(began, *o.revoke_wait);
  for (Duration pause = first_pause;; pause = std::min(pause * 2, last_pause)) {
    const auto view = opened.backend->inspect(key);
    if (!view && !retryable(view.error().code)) return fail(view.error());
    const HolderView* holds = nullptr;
    const std::vector<HolderView> holders = holders_in(view);
    for (const HolderView& h : holders) {
      const bool known = std::ranges::find(revoked, h.token) != revoked.end();
      if (h.vanished || (!h.revoked && !known)) continue;
      if (!known) revoked.push_back(h.token);
      holds = &h;
    }
    const FencingToken newest = revoked.empty() ? 0 : *std::ranges::max_element(revoked);
    const bool remembers = view && (!keeps_fence || (*view ? (*view)->fence : 0) >= newest);
    if (remembers && !holds) return ended(status_ok);
    const Deadline now = Clock::now();
    if (now >= end) {
      if (!view) return fail(view.error());
      if (!holds)
        return fail(Errc::unavailable,
                    "release: {}: the store has lost the grant with token {}: "
                    "whether its job has ended is unknown",
                    printable(key.text()), newest);
      line.clear();
      if (!o.quiet) say(still_holds(*holds, key, *o.revoke_wait));
      return ended(status_busy);
    }
    if ((holds || !view) && !o.quiet && line.due(now)) {
      const auto waited =
          std::chrono::floor<std::chrono::duration<std::int64_t, std::deci>>(now - began);
      line.show({holds ? still_holds(*holds, key, waited) : view.error().message,
                 "up to " + format_duration(*o.revoke_wait)});
      line.mark_shown(now);
    }
    wait_until({}, std::min(end, later(Clock::now(), pause)));
  }
}

// Releases one key. It uses the handle, unless --force or --revoke was given.
Result<Released> give_back(const ReleaseOptions& o, const OpenStore& opened, const Trace& trace,
                           const Key& key, const Handle* handle,
                           std::optional<FencingToken> token) {
  Traced what{.request = o.force    ? "force_release"
                         : o.revoke ? "revoke"
                                    : "release",
              .key = key.text(),
              .token = token};
  if (handle) what.owner = handle->lease(key).owner;
  View before{std::nullopt};
  if (o.force) before = opened.backend->inspect(key);
  if (unanswered(before)) return fail(before.error());
  return trace.around(what, [&] {
    if (o.force) return force(o, opened, key, token, before);
    if (o.revoke) return opened.backend->revoke(key);
    return opened.backend->release(handle->lease(key));
  });
}

// Refuses a request to stop if no process would read it.
Result<void> somebody_listens(const OpenStore& opened, const Key& key) {
  const auto view = opened.backend->inspect(key);
  if (unanswered(view)) return fail(view.error());
  const HolderView* deaf = nullptr;
  std::string why;
  const std::vector<HolderView> holders = holders_in(view);
  for (const HolderView& h : holders) {
    if (h.vanished || h.ended()) continue;
    why = why_irrevocable(**view, h);
    if (why.empty()) return {};
    deaf = &h;
  }
  if (!deaf) return {};
  const bool by_handle =
      deaf->who.kept_by == Identity::KeptBy::nobody && !is_min_hold_remainder(**view, *deaf);
  return fail(
      Errc::usage, "release: --revoke: no process would read a request for {}: {}; use {}{}",
      printable(key.text()), why, by_handle ? "its --handle, or " : "", force_options(*deaf));
}

Result<run::Outcome> not_held(const ReleaseOptions& o, std::string_view key,
                              std::optional<FencingToken> token) {
  if (o.if_held) return ended(status_ok);
  if (!o.quiet) {
    const std::string by = o.revoke   ? ""
                           : !o.force ? " by this handle"
                           : token    ? fmt::format(" with token {}", *token)
                                      : "";
    say(fmt::format("{} is not held{}", printable(key), by));
  }
  return ended(status_busy);
}

}  // namespace

Result<run::Outcome> command_release(const ReleaseOptions& o) {
  TRY(keys, parse_keys(o));
  TRY(trace, Trace::open(o.trace));
  TRY(opened, open_store(o));
  const Traits& t = *opened.store.traits;
  if (o.revoke && !t.revokes)
    return fail(Errc::usage,
                "release: --revoke: with recipe {} of {} a holder cannot be asked to stop",
                t.recipe, t.family);

  std::optional<Handle> handle;
  if (!o.force && !o.revoke) {
    TRY(h, require_handle(o, opened.store));
    handle = std::move(h);
    TRY(kept, query_keeper_of(*handle, "release"));
    if (kept == run::KeeperAnswer::done) return ended(status_ok);
    if (kept) return not_held(o, keys.front().text(), {});
  }
  for (const Key& key : keys)
    if (o.revoke) TRY_VOID(somebody_listens(opened, key));
  // Release every key, even if the first release failed.
  Result<run::Outcome> outcome = ended(status_ok);
  std::vector<std::vector<FencingToken>> revoked;  // the tokens of each key
  const Deadline began = Clock::now();
  for (const Key& key : keys) {
    std::vector<std::optional<FencingToken>> tokens{o.token};
    if (o.force && !o.token && !o.yes) {
      TRY(chosen, choose_holders(key, opened));
      tokens.assign(chosen.begin(), chosen.end());
      if (tokens.empty()) outcome = ended(status_busy);
    }
    std::vector<HolderView> asked;
    if (o.revoke && o.revoke_wait) {
      TRY(view, opened.backend->inspect(key));
      auto& tokens_now = revoked.emplace_back();
      asked = holders_in(view);
      std::erase_if(asked, [](const HolderView& h) { return h.vanished || h.ended(); });
      for (const HolderView& h : asked) tokens_now.push_back(h.token);
    }
    for (const auto& token : tokens) {
      const auto answer = give_back(o, opened, trace, key, handle ? &*handle : nullptr, token);
      if (!answer) outcome = fail(answer.error());
      else if (*answer != Released::yes)
        if (auto missed = not_held(o, key.text(), token); outcome && missed->value != status_ok)
          outcome = missed;
      if (!answer || *answer != Released::yes || o.quiet) continue;
      for (const HolderView& h : asked) say_asked(key, h);
    }
  }
  if (!o.revoke || !o.revoke_wait) return outcome;
  using Style = run::WaitLine::Style;
  const Style style = !o.log_json && can_redraw(STDERR_FILENO) ? Style::redrawn : Style::repeated;
  run::WaitLine line(style, began, print_on_stderr, say);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (auto gone = wait_for_end(o, opened, keys[i], std::move(revoked[i]), began, line);
        !gone || gone->value != status_ok)
      if (outcome) outcome = std::move(gone);
  return outcome;
}

}  // namespace dlock::cli
