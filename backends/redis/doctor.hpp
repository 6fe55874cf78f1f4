// SPDX-License-Identifier: Apache-2.0
// Is this server fit for locks? Facts that decide whether a lock can be lost, ended early or
// refused, with advice.
#pragma once
#include "common/examination.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

// The requirements of a recipe.
struct Needs {
  std::vector<std::string_view> in_scripts;  // commands, in lower case: those of rights.lua
  bool blpop = false;
  bool equal_clocks = false;  // clients judge by their own clocks
  bool failover = true;       // its replicas may become the master
};

// For one server, with an unused key `probe`. `of`: appended to the name of each finding. Errc: it
// cannot be reached.
Result<void> examine(Client&, const Endpoint&, const Needs&, const std::string& probe,
                     const std::string& of, Findings&);

// For every server that the client knows, and the way it finds them.
Result<std::vector<Finding>> examine_all(Client&, const Traits&);

}  // namespace dlock::redis
