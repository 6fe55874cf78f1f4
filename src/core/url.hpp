// SPDX-License-Identifier: Apache-2.0
// URLs of stores: parsing and display, without any knowledge of stores. store/factory.hpp decides
// which URL items are allowed. Values and pure functions.
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
    // An IPv6 address is stored without its brackets. A name that begins with '/' (`%2Fdir` in the
    // URL) is the path of a directory.
    std::string name;
    std::optional<std::uint16_t> port;
  };
  std::string scheme;          // lower case
  std::string user, password;  // decoded
  std::vector<Host> hosts;     // `scheme://user@/path` has none
  // Decoded. It keeps a leading slash, and is empty for a bare `scheme:`.
  std::string path;
  std::vector<std::pair<std::string, std::string>> items;  // decoded, in order

  // Errc::usage: the message shows the redacted URL and the error. Errors are a repeated item, an
  // empty host, a port outside 1-65535, a fragment, a control character and a broken %XX.
  static Result<Url> parse(std::string_view text);

  std::optional<std::string_view> item(std::string_view name) const;
  std::string redacted()
      const;  // with `***` for passwords, and for URL items that look like a password
};

// Returns whether the text could be a host name, or an address without brackets.
bool is_host(std::string_view) noexcept;

}  // namespace dlock
