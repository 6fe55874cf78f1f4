// SPDX-License-Identifier: Apache-2.0
// A lock directory of a test, and its files.
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <string>
#include <vector>
#include "contract/helpers.hpp"
#include "file/factory.hpp"
#include "support/temp_dir.hpp"

namespace dlock::contract {

inline std::unique_ptr<Backend> open_in(const std::string& directory, Duration op_timeout = 5s,
                                        file::Tuning tuning = {}) {
  Settings s;
  s.op_timeout = op_timeout;
  return file::open_lease(directory, s, tuning);
}

inline std::string state_of(const std::string& directory, const std::string& key = "k") {
  return directory + "/" + key + "/state";
}

inline std::string content(const std::string& path) {
  std::string text;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file);
  char block[4096];
  for (ssize_t n; (n = ::read(file.get(), block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(n));
  return text;
}

// Everything in the directory of a key.
inline std::vector<std::string> files_of(const std::string& directory,
                                         const std::string& key = "k") {
  std::vector<std::string> names;
  DIR* const dir = ::opendir((directory + "/" + key).c_str());
  REQUIRE(dir);
  while (const dirent* e = ::readdir(dir))
    if (std::string name = e->d_name; name != "." && name != "..") names.push_back(std::move(name));
  ::closedir(dir);
  return names;
}

// What the first step of a new acquisition answers: the code of its Error, or nothing.
inline std::optional<Errc> refused(Backend& b, const Request& r, std::string* message = nullptr) {
  auto waiter = b.enqueue(r);
  REQUIRE(waiter);
  auto answer = (*waiter)->poll(0s);
  if (answer) {
    (void)(*waiter)->cancel();
    return std::nullopt;
  }
  if (message) *message = answer.error().message;
  return answer.error().code;
}

}  // namespace dlock::contract
