// SPDX-License-Identifier: Apache-2.0
#include "cli/grant.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include "cli/options/verbs.hpp"
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "run/environment.hpp"
#include "util/file.hpp"
#include "util/shell.hpp"

namespace dlock::cli {
namespace {

using Json = nlohmann::ordered_json;

// the longest value that an environment variable can have
constexpr std::size_t longest_handle = 128 * 1024;

// Reads one line. It does not wait for the end of the file, because the writer may live on and
// write more (`acquire --hold | ...`).
std::optional<std::string> read_line(int fd, Deadline until) {
  return read_text(fd, {.longest = longest_handle, .first_line = true, .until = until});
}

bool of(const Handle& h, const Store& s) {
  return h.family == s.traits->family && h.recipe == s.traits->recipe;
}

// Parses a handle that comes from `where`. Handle::parse itself would name --handle in its error.
Result<Handle> from_elsewhere(std::string_view text, std::string_view where, Errc code) {
  auto h = Handle::parse(text);
  if (h) return h;
  constexpr std::string_view begin = "--handle: ";
  std::string_view what = h.error().message;
  if (what.starts_with(begin)) what.remove_prefix(begin.size());
  return fail(code, "{}: {}", where, what);
}

Result<Handle> from_option(std::string_view value) {
  if (value == "-") {
    const auto text = read_line(STDIN_FILENO, no_deadline);
    if (!text)
      return fail(Errc::usage, "--handle -: cannot read standard input: {}",
                  ::strerrordesc_np(errno));
    return from_elsewhere(*text, "--handle -: standard input", Errc::usage);
  }
  if (!value.starts_with('@')) return Handle::parse(value);

  const std::string path(value.substr(1));
  const std::string name = fmt::format("--handle @FILE: {}", dlock::quoted(path));
  const Fd fd = open_to_read(path);
  const auto text = fd ? read_line(fd.get(), later(Clock::now(), fifo_patience)) : std::nullopt;
  if (!text && errno == ETIMEDOUT) return fail(Errc::config, "{}: this FIFO has no writer", name);
  if (!text) return fail(Errc::config, "{} cannot be read: {}", name, ::strerrordesc_np(errno));
  return from_elsewhere(*text, name, Errc::config);
}

constexpr std::string_view keeper_mark = "keeper.";

const char* question(const Options& o) {
  switch (o.verb) {
    case Verb::renew: return "renewed";
    case Verb::release: return o.revoke ? "revoked" : "released";
    case Verb::check: return "valid";
    default: return nullptr;
  }
}

}  // namespace

Result<Handle> require_handle(const GrantOptions& o, const Store& s) {
  if (o.handle) {
    TRY(h, from_option(*o.handle));
    if (!of(h, s))
      return fail(Errc::usage, "--handle: it is a handle of {}.{}, but --backend is {}.{}",
                  h.family, h.recipe, s.traits->family, s.traits->recipe);
    return h;
  }
  // NOLINT(concurrency-mt-unsafe): no thread exists
  const char* inherited = std::getenv("DLOCK_HANDLE");
  auto h = Handle::parse(inherited ? inherited : "");
  if (h && of(*h, s)) return h;  // ignore a handle of another backend
  const std::string_view without =
      o.verb == Verb::release
          ? "; without one, --revoke asks the holder to stop, and --force removes it"
          : "";
  return fail(Errc::usage, "{}: --handle is missing, and DLOCK_HANDLE holds no handle of {}.{}{}",
              info(o.verb).name, s.traits->family, s.traits->recipe, without);
}

std::string keeper_extra(const std::string& name) {
  return std::string(keeper_mark) + run::KeeperAddress::of_this_process(name).text();
}

Result<std::optional<run::KeeperAnswer>> query_keeper_of(const Handle& handle,
                                                         std::string_view what) {
  if (!handle.extra.starts_with(keeper_mark)) return std::optional<run::KeeperAnswer>{};
  const auto keeper =
      run::KeeperAddress::parse(std::string_view(handle.extra).substr(keeper_mark.size()));
  TRY(answer, run::query_keeper(keeper, what, handle.owner));
  return std::optional{answer};
}

std::string text_of_grant(Output form, const std::vector<Lease>& leases, const Store& store,
                          Duration ttl, const std::string& keeper) {
  const std::string_view family = store.traits->family, recipe = store.traits->recipe;
  const Lease& lease = leases.front();
  Handle handle = Handle::of(family, recipe, leases);
  if (!keeper.empty()) handle.extra = keeper;
  if (form == Output::text) return handle.text() + '\n';
  if (form == Output::json) {
    Json j{{"key", lease.key.text()}};
    for (const Lease& l : leases) j["keys"].push_back(l.key.text());
    j["handle"] = handle.text();
    j["token"] = lease.token;
    j["sequencer"] = Sequencer::of(family, recipe, lease).text();
    j["scheme"] = store.url.scheme;
    j["recipe"] = recipe;
    j["mode"] = mode_name(lease.mode);
    j["slot"] = lease.mode == Mode::permit ? Json(lease.slot) : Json(nullptr);
    j["ttl_ms"] = whole_milliseconds(ttl);
    return j.dump() + '\n';
  }
  // Print those variables of `dlock run`'s jobs that mean the same here. DLOCK_HELD and
  // DLOCK_GRANTS mean that a dlock supervises the job, so they are left out.
  std::string text;
  for (const auto& [name, value] : run::grant_variables(*store.traits, lease, handle, ttl))
    text += fmt::format("export {}={}\n", name, shell_quoted(value));
  return text;
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

}  // namespace dlock::cli
