// SPDX-License-Identifier: Apache-2.0
#include "run/program.hpp"
#include <climits>
#include <cstdlib>
#include <string_view>

namespace dlock::run {
namespace {

std::vector<std::string> look_up_in_path(const std::string& name) {
  if (name.empty()) return {};
  if (name.find('/') != name.npos) return {name};
  const char* path = std::getenv("PATH");
  std::vector<std::string> found;
  for (std::string_view rest = path ? path : "/bin:/usr/bin";;) {
    const auto end = rest.find(':');
    const std::string_view directory = rest.substr(0, end);  // empty: the current one
    if (directory.size() < PATH_MAX)
      found.push_back(std::string(directory) + (directory.empty() ? "" : "/") + name);
    if (end == rest.npos) return found;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

Program::Program(std::vector<std::string> words) : Program(std::move(words), {}) {}

Program::Program(std::vector<std::string> words, const std::string& file)
    : text_(std::move(words)),
      found_(file.empty() ? look_up_in_path(text_.front()) : std::vector{file}) {
  for (const std::string& word : text_) words_.push_back(const_cast<char*>(word.c_str()));
  words_.push_back(nullptr);
  for (const std::string& f : found_) files_.push_back(f.c_str());
  files_.push_back(nullptr);
  script_ = {"/bin/sh", nullptr};
  script_.insert(script_.end(), words_.begin() + 1, words_.end());
}

}  // namespace dlock::run
