// SPDX-License-Identifier: Apache-2.0
// The list of masters that each of them stores beside a lock: that of the last confirmed grant of
// the key. A client with another list has other majorities, and would not exclude (README.md,
// "Lists").
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "redis/wire/options.hpp"

namespace dlock::redlock {

// "db1:6379,db2:6379,db3:7000/0": the same for all clients with the same masters and database, in
// any order. Two names of one server are two masters.
std::string list_text(const redis::Options&);

// A list stored at a master.
struct KnownList {
  std::string text;
  bool marked = false;  // a change from this list was begun, and is not finished

  static KnownList parse(std::string_view recorded);
  std::vector<std::string> masters() const;  // "db1:6379"
};

// "db1:6379" of each server, in the order of the URL.
std::vector<std::string> master_names(const redis::Options&);

}  // namespace dlock::redlock
