// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/error.hpp"

namespace dlock {

// The address of a store: `scheme:path`, `scheme:///path`,
// `scheme://[user[:password]@]host[:port][,host[:port]...][/path][?name=value&...]`.
struct Url {
  struct Host {
    // without the brackets of an IPv6 literal; `%2Fdir` is a directory, decoded
    std::string name;
    std::optional<std::uint16_t> port;
  };
  std::string scheme;          // lower case
  std::string user, password;  // decoded
  std::vector<Host> hosts;     // `scheme://user@/path` has none
  // decoded, with its leading slash if it had one; never from a bare `scheme:`
  std::string path;
  std::vector<std::pair<std::string, std::string>> items;  // decoded, in order

  // Errc::usage; the message shows the redacted URL and the error. A repeated name, an empty host,
  // a port outside 1-65535, a fragment, a control character or a broken %XX are refused.
  static Result<Url> parse(std::string_view text);

  std::optional<std::string_view> item(std::string_view name) const;
  std::string redacted() const;  // with `***` for the password, and for items that look like one
};

// A host name, or an address without brackets: whether it has the characters of one.
bool is_host(std::string_view) noexcept;

}  // namespace dlock
