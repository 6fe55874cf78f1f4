// SPDX-License-Identifier: Apache-2.0
#include "cli/store.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <vector>
#include "cli/options/suggestions.hpp"
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "core/duration.hpp"
#include "core/text.hpp"
#include "report/lines.hpp"
#include "util/shell.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

void warn(const StoreOptions& o, const Store& s) {
  const auto about_url = [&](std::string_view text) {
    if (!text.empty()) say_warning(fmt::format("{}: {}", s.called, text));
  };
  // Without a terminal do not warn about a password, because cron would mail the same line after
  // each run. Never warn about a password in a variable, which is harder to see.
  const bool tty = ::isatty(STDERR_FILENO) != 0, doctor = given(o, "doctor");
  if (!s.url.password.empty() && given_by_flag(o, "backend") && (doctor || tty))
    about_url(fmt::format("a password in a URL is easily seen by others ({})", s.url.redacted()));
  if (s.traits->legacy)
    say_warning(
        fmt::format("{}, recipe {}: {}", s.traits->family, s.traits->recipe, s.traits->weakness));
  // The doctor shows this in a row of its own.
  if (tty && !doctor && s.factory->access && (!s.url.user.empty() || !s.secrets.auth.empty()))
    about_url(s.factory->access(s.url).in_clear);
  const bool locks = !given(o, "explain") &&
                     (o.verb == Verb::run || o.verb == Verb::acquire || o.verb == Verb::bench);
  if (s.factory->makes && given_by_flag(o, "backend"))
    about_url(s.factory->makes(s.url, *s.traits, locks));
  if (s.secrets.tls_insecure)
    say_warning(
        "--tls-insecure: the server's certificate is not verified; an attacker may read and change "
        "everything");
}

std::string without_password(std::string_view backend) {
  auto url = parse_backend(backend);
  if (!url || url->redacted().find("***") == std::string::npos) return std::string(backend);
  url->password.clear();
  return url->redacted();
}

}  // namespace

Result<Store> choose_store(const StoreOptions& o) {
  const auto wrong = [&](std::string_view option, const Error& e) {
    return fail(e.code == Errc::usage ? error_code_of(o, option) : e.code,
                fmt::format("{}: {}", display_name(o, option), e.message));
  };
  if (const std::string meant = proposed_url(o.backend); !meant.empty())
    return wrong("backend", {Errc::usage, fmt::format("{} has no scheme; did you mean {}?",
                                                      quoted(o.backend), meant)});
  auto url = parse_backend(o.backend);
  if (!url) return wrong("backend", url.error());
  SecretFiles files = extract_secret_files(*url);
  const std::string_view short_ttl = url->item("short_ttl").value_or("no");
  if (short_ttl != "yes" && short_ttl != "no")
    return wrong("backend", {Errc::usage, fmt::format("short_ttl: {} is neither yes nor no",
                                                      quoted(short_ttl))});
  const bool url_decides = !given_by_flag(o, "recipe") && url->item("recipe");
  const std::string_view recipe = url_decides ? std::string_view{} : o.recipe;
  const auto choice = choose(*url, recipe);
  // Try the URL alone, to learn whether only the recipe is wrong. The wrong part decides the name
  // in the message and the exit status.
  if (!choice)
    return wrong(!recipe.empty() && choose(*url, {}) ? "recipe" : "backend", choice.error());
  Store store{.url = std::move(*url),
              .factory = choice->factory,
              .traits = choice->traits,
              .files = std::move(files),
              .secrets = {},
              .called = display_name(o, "backend"),
              .blame = error_code_of(o, "backend"),
              .connect_timeout = o.connect_timeout};
  if (const auto in_url = store.url.item("connect_timeout");
      in_url && !given_by_flag(o, "connect-timeout"))
    store.connect_timeout = parse_duration(*in_url).value_or(o.connect_timeout);
  if (o.verb != Verb::bench)  // bench judges all backends together
    TRY_VOID(all_useful(o, {&store, 1}));
  TRY(secrets, find_secrets(o, store));
  store.secrets = std::move(secrets);
  if (!o.quiet) warn(o, store);
  if (o.verbosity > 0)
    if (const std::string text = unused_secrets(o, store.url); !text.empty()) say_warning(text);
  // bench chooses its recipes later
  if (o.verb == Verb::bench) return store;
  auto opener = store.prepare();
  if (!opener && opener.error().code == Errc::usage) return wrong("backend", opener.error());
  if (!opener) return fail(opener.error());
  store.open = std::move(*opener);
  return store;
}

Result<Opener> Store::prepare() const {
  Settings settings{secrets};
  settings.connect_timeout = connect_timeout;
  return factory->prepare(url, *traits, settings);
}

std::string store_options(const StoreOptions& o) {
  std::string text = " -b " + sh_word(without_password(o.backend));
  // If display_name() contains this text, the option is in a file. Leave it out, because the
  // suggested command reads the file, too.
  constexpr std::string_view in_a_file = ": ";
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::string_view>{"config", o.config},
        {"profile", o.profile},
        {"recipe", o.recipe},
        {"password-file", o.password_file},
        {"auth-file", o.auth_file},
        {"tls-ca", o.tls_ca},
        {"tls-cert", o.tls_cert},
        {"tls-key", o.tls_key},
        {"tls-name", o.tls_name}})
    if (!value.empty() && display_name(o, name).find(in_a_file) == std::string::npos)
      text.append(" --").append(name).append(" ").append(sh_word(value));
  return text + (o.tls_insecure ? " --tls-insecure" : "");
}

std::string place_of(const Store& s) {
  Url url = s.url;
  url.user.clear();
  url.password.clear();
  std::erase_if(url.items, [](const auto& item) {
    return item.first != "prefix" && item.first != "db" && item.first != "table";
  });
  return url.redacted();
}

Result<OpenStore> open_store(const StoreOptions& o) {
  TRY(store, choose_store(o));
  TRY(backend, store.open(o.op_timeout.value_or(usual_op_timeout(o.ttl)), -1));
  if (o.verbosity > 0)
    say(fmt::format("{}: asking {}, recipe {}", info(o.verb).name, backend->where(),
                    store.traits->recipe));
  return OpenStore{std::move(store), std::move(backend), store_options(o)};
}

Result<void> check_ttl(const StoreOptions& o, const Store& store) {
  if (o.ttl >= shortest_ttl || store.url.item("short_ttl") == "yes") return {};
  return fail(error_code_of(o, "ttl"),
              "{}: {} must be at least {} (?short_ttl=yes in the URL permits less)",
              display_name(o, "ttl"), format_duration(o.ttl), format_duration(shortest_ttl));
}

Result<std::vector<Key>> parse_keys(const CommonOptions& o) {
  std::vector<Key> keys;
  for (const std::string_view text : o.keys) {
    TRY(key, Key::parse(text));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Trace> Trace::open(std::string_view path) {
  if (path.empty()) return Trace(Fd());
  TRY(fd, run::open_lines("--trace", std::string(path)));
  return Trace(std::move(fd));
}

void Trace::write(std::string_view event, const Traced& what, std::string_view error) const {
  if (!fd_) return;
  const std::string owner = what.owner ? what.owner->hex().substr(0, 8) : "";
  const run::TraceHead line{event, what.request, what.key, owner};
  std::vector<run::Field> more;
  if (what.token) more.emplace_back("token", static_cast<std::int64_t>(*what.token));
  if (!error.empty()) more.emplace_back("err", printable(error));
  const std::string text = run::trace_line(line, more);
  // One write, so that lines of several processes do not mix. A trace that cannot be written stops
  // nothing.
  [[maybe_unused]] const auto written = ::write(fd_.get(), text.data(), text.size());
}

}  // namespace dlock::cli
