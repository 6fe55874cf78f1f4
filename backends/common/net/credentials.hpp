// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "common/net/tls.hpp"
#include "common/url_items.hpp"

namespace dlock {

// The password and the TLS files of the options. If a server refuses them, newer_than() reads the
// files again, because they may change while dlock holds a lock or waits for one.
class Credentials {
 public:
  // `options` must outlive this object, which updates the password in them.
  explicit Credentials(LoginOptions& options) : options_(options) {}
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  Result<void> load();  // Errc::config: a TLS file cannot be used
  // null: the options have no TLS, or load() has not succeeded. The context is valid as long as
  // this object exists.
  const TlsContext* tls() const noexcept { return tls_ ? &*tls_ : nullptr; }

  unsigned version() const noexcept { return version_; }
  // Reads the files again. Call it when a server has refused the credentials of this version. True:
  // the files have changed since that version.
  bool newer_than(unsigned version);

 private:
  LoginOptions& options_;
  std::optional<TlsContext> tls_;
  // device, inode, size and times of the TLS files; newer_than() notices a change by them
  std::string tls_files_;
  unsigned version_ = 0;
};

}  // namespace dlock
