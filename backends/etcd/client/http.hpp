// SPDX-License-Identifier: Apache-2.0
// The part of HTTP/1.1 that the JSON gateway needs: POST, with a reply that is read as a whole or
// as a stream of lines.
#pragma once
#include <http_parser.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include "common/exchange.hpp"
#include "common/net/transport.hpp"

namespace dlock::etcd {

// Takes the bytes of one reply, and returns its parts. No I/O.
class HttpReader {
 public:
  HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;
  // False: the bytes are not a reply, or they are more than one reply.
  bool feed(std::string_view bytes);
  // Call it when the peer has ended the connection, which completes a reply that has no length.
  // True: the reply is complete. False: the reply was cut off.
  bool end();

  bool has_head() const noexcept { return head_; }
  bool complete() const noexcept { return complete_; }
  bool stays_open() const noexcept { return stays_open_; }
  int status() const noexcept { return parser_.status_code; }
  // Returns the header Date, in seconds since 1970, or 0 if the reply has none.
  std::int64_t date() const noexcept { return date_; }
  std::string extract_body() noexcept { return std::exchange(body_, {}); }
  // Removes the next line from the body and returns it. nullopt: the line is not complete yet.
  std::optional<std::string> next_line();

 private:
  static HttpReader& of(http_parser* p) { return *static_cast<HttpReader*>(p->data); }
  bool add_name(std::string_view);
  bool add_value(std::string_view);

  http_parser parser_{};
  std::string body_, name_, value_;  // name and value of the current header
  std::int64_t date_ = 0;
  bool in_value_ = false, head_ = false, complete_ = false, stays_open_ = false;
};

struct HttpAnswer {
  int status = 0;
  std::int64_t date = 0;
  std::string body;
};

// One connection, which carries one request at a time. It cannot be used after an error.
class Http {
 public:
  Http(const Endpoint& at, const TlsContext* tls, Duration silence, Deadline until,
       std::size_t first)
      : transport_(at, tls, silence, until, first), plain_(!tls), host_(at.text()) {}

  // Opens the connection; call it before post(). If the peer has sent nothing by `heard_by`, open()
  // fails, so that the caller can try another peer. If there is no other peer, the caller passes
  // `until` as `heard_by`. If the peer has replied before, it need not send anything now, and the
  // caller passes no_deadline. Errc::unavailable: no peer replied in time. Errc::denied: TLS
  // failed.
  Result<void> open(Deadline until, Deadline heard_by);
  // Errc::timed_out: the outcome is unknown. Errc::protocol: the outcome is unknown, and the peer
  // does not speak HTTP. Errc::denied: TLS failed, and nothing was done.
  Result<HttpAnswer> post(std::string_view path, std::string_view body, std::string_view token,
                          Deadline until);

  // Like post(), but does not wait: step() sends the request. `what`: method and path, such as
  // "POST /path". If the first address of the name stays silent, step() sends the request to the
  // next address.
  void ask(std::string_view what, std::string_view body, std::string_view token);
  // Connects, sends and reads as much as possible now. Call it again when events() happen on fd(),
  // and no later than poll_until(). True: more of the reply has arrived.
  Result<bool> step();
  std::optional<std::string> next_line() { return reader_->next_line(); }
  bool complete() const noexcept { return reader_->complete(); }
  bool stays_open() const noexcept { return !reader_ || reader_->stays_open(); }
  int fd() const noexcept { return transport_.poll_fd(); }
  short events() const noexcept { return transport_.poll_events(); }
  Deadline poll_until() const noexcept { return transport_.poll_until(); }

 private:
  Result<bool> go_on();  // step() for the current address

  Transport transport_;
  const bool plain_;  // without TLS
  const std::string host_;
  std::string request_;
  bool sent_ = true;
  std::optional<HttpReader> reader_;
};

std::string http_library();  // "http-parser 2.9.4"

}  // namespace dlock::etcd
