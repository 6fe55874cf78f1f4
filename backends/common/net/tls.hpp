// SPDX-License-Identifier: Apache-2.0
// TLS as a codec from bytes to bytes. It has no socket, deadline or poll(2); Transport has these.
//
// TLS is always 1.2 or newer, sends the server's name (SNI), and never falls back to plain text. It
// verifies the server's chain and name, unless TlsOptions::verify asks for less.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include "common/url_items.hpp"
#include "core/error.hpp"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace dlock {

class TlsContext {
 public:
  // Errc::config: a file is unreadable, or its content cannot be used
  static Result<TlsContext> create(const TlsOptions&);

 private:
  friend class Tls;
  struct Free {
    void operator()(ssl_ctx_st*) const noexcept;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
  TlsOptions options_;
};

class Tls {
 public:
  Tls(const TlsContext&, const std::string& host);

  // Takes one step of the handshake. `wire`: the bytes that were received. Appends to `out` the
  // bytes to send. True: the handshake is complete. Errc::denied: the certificate was refused, or
  // the server does not speak TLS.
  Result<bool> handshake(std::string_view wire, std::string& out);
  Result<void> encrypt(std::string_view plain, std::string& out);
  // Appends to `plain` the text that was received, and to `out` the bytes that TLS itself has to
  // send. False: the server ended the connection.
  Result<bool> decrypt(std::string_view wire, std::string& plain, std::string& out);

 private:
  struct Free {
    void operator()(ssl_st*) const noexcept;
  };
  void feed(std::string_view wire);
  void drain(std::string& out);

  std::unique_ptr<ssl_st, Free> ssl_;
  bio_st* in_;   // owned by ssl_
  bio_st* out_;  // ssl_ owns it
};

}  // namespace dlock
