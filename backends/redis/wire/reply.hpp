// SPDX-License-Identifier: Apache-2.0
// RESP2, the wire format of Redis. hiredis only parses it, and does not use the socket.
#pragma once
#include <cstddef>
#include <span>
#include "common/exchange.hpp"
#include "common/net/transport.hpp"
#include "core/error.hpp"

struct redisReader;

namespace dlock::redis {

struct Reply {
  enum class Type { nil, status, string, integer, array, error };
  Type type = Type::nil;
  std::int64_t integer = 0;
  std::string text;  // for a status, string or error
  std::vector<Reply> items;

  bool is(Type t) const noexcept { return type == t; }
  // Return element `i` of a script's reply, as text or as a number. Empty or nullopt: the element
  // is missing or of another kind.
  std::string_view text_at(std::size_t i) const noexcept;
  // an integer, or decimal digits
  std::optional<std::int64_t> number_at(std::size_t i) const noexcept;
};

// No reply that dlock requests comes near these limits. A bigger reply comes from a broken or
// hostile server.
inline constexpr std::size_t max_reply_bytes = 1 << 20;
inline constexpr std::size_t max_reply_elements = 1 << 17;

struct ReplyLimits {
  std::size_t elements = max_reply_elements;  // the elements that the current reply may still have
  // an element has a type that RESP2 does not have
  bool unknown_type = false;
};

class ReplyReader {
 public:
  ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Errc::protocol: there are more than max_reply_bytes without a complete reply. The reader cannot
  // be used afterwards.
  Result<void> feed(std::string_view bytes);
  // Returns the next complete reply. nullopt: there is none yet. Errc::protocol: the bytes are not
  // RESP2, or a reply has too many elements.
  Result<std::optional<Reply>> next();

 private:
  struct Free {
    void operator()(redisReader*) const noexcept;
  };
  ReplyLimits limits_;
  std::unique_ptr<redisReader, Free> reader_;  // keeps the address of limits_
  std::size_t pending_ = 0;                    // bytes since the last complete reply
};

// ---- error replies -----------------------------------------------------------------------------

using dlock::Remedy;

struct ServerError {
  std::string_view name;  // "READONLY"; empty: unknown
  Remedy remedy;
  Errc code = Errc::unavailable;
  std::string_view advice{};  // for people; may be empty
};

// `text`: an error reply of the server, without the leading '-'. Each version of Redis wraps errors
// inside a script differently (5 and 6: `ERR Error running script (...): ... -READONLY ...`, 7:
// `READONLY ... script: ...`). classify() finds the known name in each of these forms.
ServerError classify(std::string_view text) noexcept;

// "<what> at <where>: <server's text, made printable and short> (<advice>)"
Error as_error(std::string_view what, std::string_view where, std::string_view text);
// The same for the reply to a login, which may repeat our password or a part of it. So the error
// uses only the first sentence of the reply, or only its first word if that sentence contains the
// password.
Error as_login_error(std::string_view what, std::string_view where, std::string_view text,
                     std::string_view password);

// ---- connections -------------------------------------------------------------------------------

// Appends one command in wire format.
void append_command(std::string& out, std::span<const std::string_view> args);

// A connection to a server. It sends commands, and receives replies in the order of the commands.
// No function of it waits.
class RespStream : public Transport {
 public:
  using Transport::Transport;

  void add(std::span<const std::string_view> command);  // appends to the buffer
  // Returns the next reply that has arrived. Errc::unavailable: the connection is broken.
  // Errc::protocol: the peer does not speak RESP. In both cases the connection is useless
  // afterwards.
  Result<std::optional<Reply>> receive();

 private:
  ReplyReader reader_;
};

}  // namespace dlock::redis
