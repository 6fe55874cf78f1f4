// SPDX-License-Identifier: Apache-2.0
// TLS between bytes and bytes: the socket and its deadlines stay in Stream. At least TLS 1.2, the
// chain and the host name verified (unless insecure), no way back to plain text.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include "common/url_items.hpp"
#include "core/error.hpp"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace dlock::etcd {

using TlsContext = std::shared_ptr<ssl_ctx_st>;
// Errc::config: a file cannot be read, or does not fit.
Result<TlsContext> make_tls(const TlsOptions&);

class Tls {
 public:
  Tls(TlsContext, const std::string& host);
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls();

  // Each takes what was received and appends to `out` what has to be sent.
  // True: done. Errc::denied: one side refuses the other.
  Result<bool> handshake(std::string_view received, std::string& out);
  Result<void> encrypt(std::string_view plain, std::string& out);
  // False: the server has ended the connection.
  Result<bool> decrypt(std::string_view received, std::string& plain, std::string& out);

 private:
  void give(std::string_view received);
  void collect(std::string& out);

  TlsContext context_;
  ssl_st* ssl_;
  bio_st *in_, *out_;  // owned by ssl_
};

}  // namespace dlock::etcd
