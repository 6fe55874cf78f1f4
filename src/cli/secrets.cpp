// SPDX-License-Identifier: Apache-2.0
#include "cli/secrets.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <vector>
#include "cli/options/option_table.hpp"
#include "cli/store.hpp"
#include "core/text.hpp"
#include "util/secret_file.hpp"

namespace dlock::cli {
namespace {

struct Kind {
  std::string_view option;
  std::string_view Access::*useless;
};
constexpr Kind kinds[] = {{"password-file", &Access::no_password},
                          {"auth-file", &Access::no_auth},
                          // The sentinels' password comes from a URL item or a variable, so it has
                          // no option.
                          {"", &Access::no_sentinels},
                          {"tls-ca", &Access::no_tls},
                          {"tls-cert", &Access::no_tls},
                          {"tls-key", &Access::no_tls},
                          {"tls-name", &Access::no_tls},
                          {"tls-insecure", &Access::no_tls}};

struct TlsValue {
  std::string_view option, item;
  std::string Secrets::*to;
};
constexpr TlsValue tls_values[] = {{"tls-ca", "tls_ca", &Secrets::tls_ca},
                                   {"tls-cert", "tls_cert", &Secrets::tls_cert},
                                   {"tls-key", "tls_key", &Secrets::tls_key},
                                   {"tls-name", "tls_name", &Secrets::tls_name}};

const Kind* kind_of(std::string_view option) {
  for (const Kind& k : kinds)
    if (k.option == option) return &k;
  return nullptr;
}

std::uint16_t usual_port(const Url& url) {
  for (const BackendFactory& f : backends())
    if (f.access && std::ranges::find(f.schemes, url.scheme) != f.schemes.end())
      return f.access(url).port;
  return 0;
}

// Returns a sorted list: HOST:PORT of each server, or the path of a socket if the URL names no
// server; and the value of ?hostaddr=, if there is one.
std::vector<std::string> places(const Url& url) {
  std::vector<std::string> all;
  const std::uint16_t usual = usual_port(url);
  for (const Url::Host& h : url.hosts)
    all.push_back(fmt::format("{}:{}", lower(h.name), h.port.value_or(usual)));
  if (all.empty()) all.push_back(url.path);
  if (const auto addresses = url.item("hostaddr")) all.emplace_back(*addresses);
  std::ranges::sort(all);
  return all;
}

bool counts(const Given& g, const Url& url) {
  if (g.off) return false;
  if (g.source != Source::config) return true;
  const auto own = parse_backend(g.backend);
  return own && own->scheme == url.scheme && own->user == url.user && places(*own) == places(url);
}

// Returns the value of the first source that sets the option. The order is: flag, variable, table
// of a file.
const Given* value_for(const StoreOptions& o, std::string_view option, const Url& url) {
  for (const Given& g : o.values)
    if (g.option->name == option && counts(g, url)) return &g;
  return nullptr;
}

std::string_view why_useless(const Kind& kind, const Store& s) {
  return s.factory->access ? s.factory->access(s.url).*kind.useless
                           : std::string_view{"it has no secrets"};
}

constexpr const char* password_variable = "DLOCK_PASSWORD";
constexpr const char* sentinel_variable = "DLOCK_SENTINEL_PASSWORD";
// NOLINTNEXTLINE(concurrency-mt-unsafe): no thread exists
const char* value_of(const char* variable) { return std::getenv(variable); }

}  // namespace

SecretFiles extract_secret_files(Url& url) {
  SecretFiles files;
  std::erase_if(url.items, [&](const auto& item) {
    std::string* const file = item.first == "password_file"            ? &files.password
                              : item.first == "auth_file"              ? &files.auth
                              : item.first == "sentinel_password_file" ? &files.sentinels
                                                                       : nullptr;
    if (file) *file = item.second;
    return file != nullptr;
  });
  return files;
}

Result<void> all_useful(const StoreOptions& o, std::span<const Store> stores) {
  for (const Store& s : stores)
    for (const auto& [kind, item, file] :
         {std::tuple{&kinds[0], "password_file", &s.files.password},
          std::tuple{&kinds[1], "auth_file", &s.files.auth},
          std::tuple{&kinds[2], "sentinel_password_file", &s.files.sentinels}})
      if (const auto why = why_useless(*kind, s); !file->empty() && !why.empty())
        return fail(s.blame, "{}: {}: no use for {}: {}", s.called, s.url.redacted(), item, why);
  const auto judge = [&](const Kind& kind, const Given* g, Errc code,
                         std::string_view name) -> Result<void> {
    const Store* refusing = nullptr;
    for (const Store& s : stores) {
      if (g && !counts(*g, s.url)) continue;
      if (why_useless(kind, s).empty()) return {};
      if (s.factory->access) refusing = &s;
    }
    if (!refusing) return {};
    return fail(code, "{}: no use for it at {}: {}", name, refusing->url.redacted(),
                why_useless(kind, *refusing));
  };
  for (const Given& g : o.values)
    if (const Kind* kind = kind_of(g.option->name); kind && !g.off)
      TRY_VOID(
          judge(*kind, &g, g.source == Source::flag ? Errc::usage : Errc::config, display_name(g)));
  for (const auto& [kind, variable] :
       {std::pair{&kinds[0], password_variable}, std::pair{&kinds[2], sentinel_variable}})
    if (value_of(variable)) TRY_VOID(judge(*kind, nullptr, Errc::config, variable));
  return {};
}

Result<Secrets> find_secrets(const StoreOptions& o, const Store& store) {
  Secrets s;
  if (!store.factory->access) return s;
  const Url& url = store.url;
  const auto given = [&](std::string_view option) -> const Given* {
    return why_useless(*kind_of(option), store).empty() ? value_for(o, option, url) : nullptr;
  };
  const auto is_flag = [](const Given* g) { return g && g->source == Source::flag; };
  for (const auto& [option, item, to] : tls_values)
    if (const Given* g = given(option); g && (is_flag(g) || !url.item(item))) s.*to = g->value;
  // the item has the name that libpq gives it, or dlock's own name
  const std::string_view item = url.item("sslkey") ? "sslkey" : "tls_key";
  const bool of_url = s.tls_key.empty();
  if (const std::string key{of_url ? url.item(item).value_or("") : s.tls_key}; !key.empty())
    if (const auto safe = judge_secret(key); !safe)
      return fail(
          safe.error().code, "{} {}",
          of_url ? fmt::format("{}: {}", store.called, item) : display_name(*given("tls-key")),
          safe.error().message);
  s.tls_insecure = given("tls-insecure") != nullptr;
  // The first source that sets the option counts. The order is: flag, URL, the other sources.
  const auto read = [&](std::string_view option, std::string_view name, const std::string& in_url,
                        std::string& path, auto reader, std::string& to) -> Result<void> {
    const Given* g = given(option);
    const bool url_decides = !in_url.empty() && !is_flag(g);
    if (!g && !url_decides) return {};
    path = url_decides ? in_url : std::string{g->value};
    auto text = reader(path);
    if (!text)
      return fail(text.error().code, "{} {}",
                  url_decides ? fmt::format("{}: {}", store.called, name) : display_name(*g),
                  text.error().message);
    to = std::move(text->text);
    if (text->once) path.clear();
    return {};
  };
  TRY_VOID(read("auth-file", "auth_file", store.files.auth, s.auth_file, read_credential, s.auth));
  TRY_VOID(read("", "sentinel_password_file", store.files.sentinels, s.sentinel_password_file,
                read_secret, s.sentinel_password));
  if (const char* own = value_of(sentinel_variable);
      own && s.sentinel_password.empty() && store.factory->access(url).no_sentinels.empty())
    s.sentinel_password = own;
  const Given* file = given("password-file");
  const bool named = is_flag(file) || !store.files.password.empty();
  if (const char* own = value_of(password_variable); !named && (own || !url.password.empty())) {
    if (url.password.empty() && store.factory->access(url).no_password.empty()) s.password = own;
    return s;
  }
  TRY_VOID(read("password-file", "password_file", store.files.password, s.password_file,
                read_secret, s.password));
  return s;
}

std::string unused_secrets(const StoreOptions& o, const Url& url) {
  std::string text;
  for (const Given& g : o.values) {
    if (!kind_of(g.option->name) || g.off || counts(g, url)) continue;
    const auto own = parse_backend(g.backend);
    add_part(text, display_name(g) + " is for " + (own ? own->redacted() : quoted(g.backend)),
             "; ");
  }
  return text.empty() ? text : fmt::format("not used for {}: {}", url.redacted(), text);
}

std::string unused_secrets(const StoreOptions& o) {
  auto url = parse_backend(o.backend);
  if (!url) return {};
  (void)extract_secret_files(*url);
  return unused_secrets(o, *url);
}

}  // namespace dlock::cli
