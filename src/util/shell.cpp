// SPDX-License-Identifier: Apache-2.0
#include "util/shell.hpp"
#include <fmt/format.h>
#include "core/text.hpp"

namespace dlock {

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + '\'';
}

std::string sh_word(std::string_view text) {
  if (printable(text) == text) return shell_quoted(text);
  std::string bytes;
  for (const char c : text) bytes += fmt::format("\\0{:03o}", static_cast<unsigned char>(c));
  return fmt::format("\"$(printf %b '{}')\"", bytes);
}

}  // namespace dlock
