// SPDX-License-Identifier: Apache-2.0
// Checks whether this server can keep locks safely. It examines the facts that decide whether a
// lock can be lost, ended early or refused, and gives advice.
#pragma once
#include "common/examination.hpp"
#include "redis/wire/client.hpp"

namespace dlock::redis {

// The requirements of a recipe.
struct Needs {
  // the commands of its scripts, in lower case, as rights.lua lists them
  std::vector<std::string_view> in_scripts;
  bool blpop = false;
  bool equal_clocks = false;  // clients compare the times in values with their own clocks
  bool failover = true;       // a replica may become the master
};

// Examines one server. `probe`: a key that nobody uses. `of` is appended to the name of each
// finding. An Error: the server cannot be reached.
Result<void> examine(Client&, const Endpoint&, const Needs&, const std::string& probe,
                     const std::string& of, Findings&);

// Examines every server that the client knows, and how the client finds these servers (Locator).
Result<std::vector<Finding>> examine_all(Client&, const Traits&);

}  // namespace dlock::redis
