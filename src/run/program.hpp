// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace dlock::run {

// What a child of the guard is to become. Everything that it reads stays as it is until its exec,
// which may hang on a dead mount for as long as the guard lives: see start_child().
class Program {
 public:
  // As execvp(3): a first word without '/' is looked up in PATH, now.
  explicit Program(std::vector<std::string> words);
  Program(std::vector<std::string> words, const std::string& file);
  Program(const Program&) = delete;  // it points into itself

  // What the child tries, in this order.
  const char* const* files() const noexcept { return files_.data(); }
  // Of the shell that runs a file which is no program and has no #! line; the second word, the
  // file, is set by the child, which alone knows it.
  const char** script() const noexcept { return script_.data(); }
  char* const* words() const noexcept { return words_.data(); }

 private:
  const std::vector<std::string> text_;
  std::vector<std::string> found_;
  std::vector<char*> words_;
  std::vector<const char*> files_;
  mutable std::vector<const char*> script_;
};

}  // namespace dlock::run
