// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/stat.h>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include "support/temp_dir.hpp"

namespace dlock::test {

// A file of a secret that only its owner may read; each write replaces it as a whole.
class SecretFile {
 public:
  explicit SecretFile(const std::string& text) { write(text); }
  const std::string& path() const noexcept { return path_; }
  void write(const std::string& text) const {
    const std::string next = path_ + ".new";
    std::ofstream(next) << text << '\n';
    if (::chmod(next.c_str(), 0600) != 0 || std::rename(next.c_str(), path_.c_str()) != 0)
      throw std::runtime_error("cannot write " + path_);
  }

 private:
  TempDir dir_;
  std::string path_ = dir_.path() + "/secret";
};

}  // namespace dlock::test
