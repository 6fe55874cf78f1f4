// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "common/net/tls.hpp"
#include "common/url_items.hpp"

namespace dlock {

// The password and TLS of the options. If a server refuses them, their files are read again,
// because they may change while a lock is held or waited for.
class Credentials {
 public:
  // `options` must outlive this object, which keeps their password up to date.
  explicit Credentials(LoginOptions& options) : options_(options) {}
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  Result<void> load();  // Errc::config: a TLS file is wrong
  // valid as long as this object
  const TlsContext* tls() const noexcept { return tls_ ? &*tls_ : nullptr; }

  unsigned version() const noexcept { return version_; }
  // Reads the files again. True: a server refused `version`, and the files have other content now.
  bool newer_than(unsigned version);

 private:
  LoginOptions& options_;
  std::optional<TlsContext> tls_;
  std::string tls_files_;  // identity and age of the files
  unsigned version_ = 0;
};

}  // namespace dlock
