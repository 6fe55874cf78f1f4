// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "common/net/tls.hpp"
#include "common/url_items.hpp"

namespace dlock {

// Password and TLS of the options, from files that are read again when a server refuses them: they
// may have been changed while a lock is held or waited for.
class Credentials {
 public:
  // `options` outlives it; its password is kept up to date.
  explicit Credentials(LoginOptions& options) : options_(options) {}
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  Result<void> load();  // Errc::config: a TLS file
  // the same for the lifetime of the object
  const TlsContext* tls() const noexcept { return tls_ ? &*tls_ : nullptr; }

  unsigned version() const noexcept { return version_; }
  // Reads the files again. True: what a server refused, of `version`, is not what they say now.
  bool newer_than(unsigned version);

 private:
  LoginOptions& options_;
  std::optional<TlsContext> tls_;
  std::string tls_files_;  // their identity and age
  unsigned version_ = 0;
};

}  // namespace dlock
