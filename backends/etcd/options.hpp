// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "common/url_items.hpp"
#include "core/url.hpp"

namespace dlock::etcd {

inline constexpr std::uint16_t usual_port = 2379;

struct Options : LoginOptions {
  std::vector<Endpoint> endpoints;
  // before the name of every key: "dlock/", or "/app/dlock/" for the path /app
  std::string root;
  bool native = true;  // false: keys are those that `etcdctl lock` makes
};

Result<Options> parse_options(const Url&, const Traits&, const Settings&);  // Errc::usage

}  // namespace dlock::etcd
