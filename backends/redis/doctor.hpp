// SPDX-License-Identifier: Apache-2.0
// Is this server fit to keep locks? Facts that decide whether a lock can be forgotten, ended early or refused, with what to do about them.
#pragma once
#include <string>
#include <vector>
#include "core/backend.hpp"
#include "redis/client.hpp"

namespace dlock::redis {

// What a recipe asks of a server.
struct Needs {
  std::vector<std::string_view> in_scripts;  // commands, in lower case: those of rights.lua
  bool blpop = false;
  bool equal_clocks = false;  // clients judge by their own
  bool failover = true;       // its replicas may become the master
};
Needs needs_of(std::string_view recipe);

// Of one server, whose key `probe` is nobody's. `of`: what is put behind the name of each finding. Errc: it cannot be reached.
Result<void> examine(Client&, const Endpoint&, const Needs&, const std::string& probe, const std::string& of,
                     std::vector<Finding>&);

// Of every server that the client knows, and of how it knows them.
Result<std::vector<Finding>> examine_all(Client&, const Traits&);

}  // namespace dlock::redis
