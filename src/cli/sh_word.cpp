// SPDX-License-Identifier: Apache-2.0
#include "cli/sh_word.hpp"
#include <fmt/format.h>
#include <utility>
#include "cli/grant_output.hpp"
#include "core/text.hpp"
#include "core/url.hpp"

namespace dlock::cli {

std::string sh_word(std::string_view text) {
  if (printable(text) == text) return shell_quoted(text);
  std::string bytes;
  for (const char c : text) bytes += fmt::format("\\0{:03o}", static_cast<unsigned char>(c));
  return fmt::format("\"$(printf %b '{}')\"", bytes);
}

namespace {

std::string without_password(std::string_view backend) {
  auto url = Url::parse(backend);
  if (!url || url->redacted().find("***") == std::string::npos) return std::string(backend);
  url->password.clear();
  return url->redacted();
}

}  // namespace

std::string store_options(const Options& o) {
  std::string text = " -b " + sh_word(without_password(o.backend));
  constexpr std::string_view in_a_file = ": ";  // which that command reads, too
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::string_view>{"config", o.config},
        {"profile", o.profile},
        {"recipe", o.recipe},
        {"password-file", o.password_file},
        {"auth-file", o.auth_file},
        {"tls-ca", o.tls_ca},
        {"tls-cert", o.tls_cert},
        {"tls-key", o.tls_key}})
    if (!value.empty() && called(o, name).find(in_a_file) == std::string::npos)
      text.append(" --").append(name).append(" ").append(sh_word(value));
  return text + (o.tls_insecure ? " --tls-insecure" : "");
}

}  // namespace dlock::cli
