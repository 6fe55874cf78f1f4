// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/options.hpp"
#include <fmt/format.h>
#include "core/key.hpp"
#include "core/text.hpp"
#include "util/secret_file.hpp"
#include "zookeeper/factory.hpp"

namespace dlock::zookeeper {
namespace {

constexpr std::string_view native_prefix = "dlock/";

// Finds the credential of the login. It will be sent unencrypted.
Result<void> choose_login(Options& o, const Url& url, const Settings& settings, UrlItems& items) {
  o.auth = settings.auth;  // --auth-file overrides the URL
  o.auth_file = settings.auth_file;
  if (const auto file = url.item("auth_file"); file && o.auth.empty()) {
    o.auth_file = *file;
    auto secret = read_credential(o.auth_file);
    if (!secret) return fail(Errc::config, "auth_file " + secret.error().message);
    o.auth = std::move(secret->text);
    if (secret->once) o.auth_file.clear();
  }
  if (!o.auth.empty() || url.user.empty()) return {};
  const std::string password = items.password();
  if (password.empty())
    items.wrong("user", url.user, "a user with a password (DLOCK_PASSWORD), or auth_file=");
  o.login = fmt::format("digest:{}:", url.user);
  o.auth = o.login + password;
  o.auth_file = settings.password_file;
  return {};
}

// Returns whether the server's PathUtils refuses the character. PathUtils reads UTF-16, so it also
// refuses all characters above U+FFFF.
bool forbidden(char32_t c) noexcept {
  return c <= 0x1f || (c >= 0x7f && c <= 0x9f) || (c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0;
}

}  // namespace

bool read_auth_again(Options& o) {
  if (o.auth_file.empty()) return false;
  const auto now = o.login.empty() ? read_credential(o.auth_file) : read_secret(o.auth_file);
  if (!now || o.login + now->text == o.auth) return false;
  o.auth = o.login + now->text;
  return true;
}

Result<Options> parse_options(const Url& url, const Traits& traits, const Settings& settings) {
  UrlItems read(items, url, traits, settings);
  Options o;
  static_cast<StoreOptions&>(o) = read.store_options();
  o.native = traits.native;
  o.nested = traits.recipe != "ephemeral";
  if (url.hosts.empty())
    read.wrong("host", "", "at least one, as in zookeeper://H1,H2,H3[/chroot]");
  for (const Url::Host& host : url.hosts)
    o.servers.push_back({host.name, host.port.value_or(usual_port)});

  std::string path = url.path;
  while (path.ends_with('/')) path.pop_back();
  o.root = fmt::format("{}/{}", path, read.prefix(native_prefix));
  if (const auto what = wrong_path(o.root + "k"))  // a prefix need not end in a slash
    read.wrong(path.empty() ? "prefix" : "path", o.root, "a path: " + *what);

  for (const std::string& file : {settings.tls_ca, settings.tls_cert, settings.tls_key})
    if (!file.empty()) read.wrong("tls", file, "no: this dlock has no TLS for ZooKeeper");
  o.tick = read.duration("tick").value_or(Duration{});
  TRY_VOID(read.verdict());
  TRY_VOID(choose_login(o, url, settings, read));
  TRY_VOID(read.verdict());
  return o;
}

std::optional<std::string> wrong_path(std::string_view path) {
  if (!path.starts_with('/') || path.size() < 2) return "it has to begin with '/' and a name";
  for (std::string_view rest = path; !rest.empty();) {
    const Utf8 c = utf8_at(rest);
    if (c.length == 0 || forbidden(c.code)) return "ZooKeeper allows no such character";
    rest.remove_prefix(c.length);
  }
  for (std::string_view rest = path.substr(1);;) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (part.empty()) return "no part between two '/' may be empty, nor the last one";
    if (part == "." || part == "..") return "no part may be '.' or '..'";
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  if (path == "/zookeeper" || path.starts_with("/zookeeper/"))
    return "/zookeeper is the service's own";
  return std::nullopt;
}

Result<std::string> path_of(const Options& o, const Key& key) {
  const std::string name = o.native ? store_name(key) : key.text();
  if (!o.nested && name.find('/') != name.npos)
    return fail(Errc::usage,
                "--key {}: this recipe's lock is one node; a path goes "
                "into the URL: /chroot or ?prefix=a/b/",
                quoted(key.text()));
  std::string path = o.root + name;
  if (const auto what = wrong_path(path))
    return fail(Errc::usage, "--key {}: {}", quoted(key.text()), *what);
  return path;
}

Listed listed_below(const Options& o) {
  const std::size_t name = o.root.rfind('/') + 1;
  return {o.root.substr(0, name), o.root.substr(name)};
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}
std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace dlock::zookeeper
