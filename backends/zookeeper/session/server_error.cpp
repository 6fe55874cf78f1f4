// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/session/server_error.hpp"
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>

namespace dlock::zookeeper {

bool unknown(int rc) noexcept {
  return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZCLOSING ||
         rc == ZINVALIDSTATE || rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
         rc == ZRUNTIMEINCONSISTENCY || rc == ZMARSHALLINGERROR;
}

Error server_error(const Options& o, std::string_view operation, int rc) {
  const auto error = [&](Errc code, std::string_view what) {
    return Error{code, fmt::format("{} at {}: {}", operation, o.where, what)};
  };
  switch (rc) {
    case ZNOAUTH: return error(Errc::denied, "the node's ACL does not allow it");
    case ZAUTHFAILED: return error(Errc::denied, "the server does not accept the credential");
    case ZINVALIDACL:
      return error(Errc::denied, "the server does not know the credential for new nodes");
    case ZEPHEMERALONLOCALSESSION:
      return error(Errc::unavailable, "the server gives local sessions, which cannot keep locks");
    case ZNOTREADONLY:
      return error(Errc::unavailable, "the server is cut off from its ensemble and only reads");
    // ZQUOTAEXCEEDED, not in every header
    case -125: return error(Errc::cannot_create, "a quota is used up");
    case ZNOCHILDRENFOREPHEMERALS:
      return error(Errc::cannot_create, "a node on the way is another client's ephemeral one");
    default: break;
  }
  if (unknown(rc)) return error(Errc::timed_out, "the connection broke before the answer came");
  return error(Errc::protocol, fmt::format("the server answers {} ({})", zerror(rc), rc));
}

}  // namespace dlock::zookeeper
