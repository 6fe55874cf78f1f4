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
  // The chroot and the prefix, such as "/app/dlock/"; at least "/". The path of a key is `root` and
  // then the key's name.
  std::string root;
  std::string auth;  // "scheme:credential"; empty: none
  // `auth_file`: the file that read_auth_again() reads; empty: the credential does not come from a
  // file, or comes from a pipe. If `login` is empty, the file has the whole credential. Otherwise
  // the file has the password, and the credential is `login` and then the password.
  std::string auth_file, login;
  Duration tick{};  // the servers' tickTime; 0: unknown
  bool native = true;
  bool nested = true;  // the lock is a directory, and a key may be a path
};

// Reads the credential's file again. True: the credential has changed, and `auth` has the new
// credential.
bool read_auth_again(Options&);

// Errc::usage: the URL is wrong. Errc::config: the file of `auth_file` cannot be used.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

// Returns the path of a key. Native recipes encode the key as one component of the path; for other
// recipes the key itself is a path. Errc::usage: ZooKeeper does not allow this path.
Result<std::string> path_of(const Options&, const Key&);

// Where to list the keys of a prefix: the nodes in `directory`, such as "/app/", whose names begin
// with `stem`. `stem` is empty if the prefix ends in '/'.
struct Listed {
  std::string directory, stem;
};
Listed listed_below(const Options&);

// Returns what is wrong if this cannot be a path below the root.
std::optional<std::string> wrong_path(std::string_view path);

std::string_view parent_of(std::string_view path);  // "/a" for "/a/b", "/" for "/a"
std::string_view name_of(std::string_view path);    // "b" for "/a/b"

}  // namespace dlock::zookeeper
