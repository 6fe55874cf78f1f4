// SPDX-License-Identifier: Apache-2.0
// What url.cpp and url_redact.cpp share; nobody else needs it.
#pragma once
#include <string>
#include <string_view>

namespace dlock {

inline std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Takes what stands before the first of `stops`, which stays.
inline std::string_view take_until(std::string_view& rest, std::string_view stops) noexcept {
  const std::string_view head = rest.substr(0, rest.find_first_of(stops));
  rest.remove_prefix(head.size());
  return head;
}

// A URL that may be broken anywhere, for messages: without what could be a password, and rather without too much.
std::string redact_broken(std::string_view text);

}  // namespace dlock
