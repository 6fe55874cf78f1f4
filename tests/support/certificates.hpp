// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace dlock::test {

// Certificates for tests, generated on the spot: an authority and what it signs. Files are written
// to `directory`.
class Authority {
 public:
  Authority(std::string directory, std::string name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  std::string file() const;  // PEM
  struct Files {
    std::string cert, key;
  };
  // `subject_alt_name` as OpenSSL writes it: "DNS:localhost,IP:127.0.0.1". Valid from now - 1 day
  // to now + `days`.
  Files issue(const std::string& name, const std::string& subject_alt_name, int days = 2) const;

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace dlock::test
