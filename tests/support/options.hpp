// SPDX-License-Identifier: Apache-2.0
// Options and environment of test programs.
#pragma once
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
#include "support/process.hpp"

namespace dlock::test {

// "wrong options: WHAT", and ends the program with 64: nothing was tested.
[[noreturn]] void wrong_options(const std::string& what);

// `--name` for switches, `--name VALUE` for other options; invalid ones end the program.
class Options {
 public:
  Options(int argc, char** argv, const std::vector<std::string>& switches,
          const std::vector<std::string>& valued) {
    const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
      for (const auto& n : names)
        if (n == name) return true;
      return false;
    };
    for (int i = 1; i < argc; ++i) {
      if (is_in(switches, argv[i])) given_[argv[i]] = "";
      else if (is_in(valued, argv[i]) && i + 1 < argc) given_[argv[i]] = argv[i + 1], ++i;
      else if (is_in(valued, argv[i])) wrong_options(std::string(argv[i]) + " needs a value");
      else wrong_options(std::string("there is no ") + argv[i]);
    }
  }
  bool has(const std::string& name) const { return given_.count(name) != 0; }
  std::string text(const std::string& name, const std::string& fallback) const {
    const auto found = given_.find(name);
    return found == given_.end() ? fallback : found->second;
  }
  long number(const std::string& name, long fallback) const {
    if (!has(name)) return fallback;
    char* end = nullptr;
    const std::string value = text(name, "");
    const long n = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end || n < 0) wrong_options(name + " " + value + ": a number is needed");
    return n;
  }

 private:
  std::map<std::string, std::string> given_;
};

// The absolute path of a program under test, from the environment.
inline std::string program_from(const char* variable) {
  const char* path = std::getenv(variable);
  if (!path || !*path) give_up(std::string("$") + variable + " is not set: the program to test");
  char* whole = ::realpath(path, nullptr);
  if (!whole) give_up(std::string("$") + variable + "=" + path + ": no such file");
  std::string result = whole;
  std::free(whole);
  return result;
}

// Variables of a developer's environment must not reach the dlock under test.
void clean_environment();

}  // namespace dlock::test
