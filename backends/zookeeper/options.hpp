// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "common/url_items.hpp"
#include "store/factory.hpp"

namespace dlock::zookeeper {

inline constexpr std::uint16_t usual_port = 2181;

struct Options : StoreOptions {
  std::vector<Url::Host> servers;  // each with its port
  // chroot and prefix: "/app/dlock/". A key's path is this and its name. At least "/".
  std::string root;
  std::string auth;  // "scheme:credential"; empty: none
  // The file of the credential, or of what follows `login` in it; empty: it is not from a file.
  std::string auth_file, login;
  Duration tick{};  // the servers' tickTime; 0: unknown
  bool native = true;
  bool nested = true;  // whether a key may be a path; then the lock is a directory
};

// Reads the credential's file again. True: the credential has changed, and `auth` is the new one.
bool read_auth_again(Options&);

// Errc::usage: the URL. Errc::config: the file of `auth_file`.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

// Returns the path of a key. For native recipes it has one encoded component; for others the key
// itself is a path. Errc::usage: ZooKeeper cannot have such a name.
Result<std::string> path_of(const Options&, const Key&);

// Where to list the keys of a prefix: a directory, "/app/", and the beginning of the names in it,
// which is empty if the prefix ends in '/'.
struct Listed {
  std::string directory, stem;
};
Listed listed_below(const Options&);

// Returns the error if this cannot be a path below the root.
std::optional<std::string> wrong_path(std::string_view path);

std::string_view parent_of(std::string_view path);  // "/a" for "/a/b", "/" for "/a"
std::string_view name_of(std::string_view path);    // of "/a/b": "b"

}  // namespace dlock::zookeeper
