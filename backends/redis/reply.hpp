// SPDX-License-Identifier: Apache-2.0
// RESP2, the wire format of Redis. hiredis parses it; the socket is not its business.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "core/error.hpp"

struct redisReader;

namespace dlock::redis {

struct Reply {
  enum class Type { nil, status, string, integer, array, error };
  Type type = Type::nil;
  std::int64_t integer = 0;
  std::string text;  // status, string, error
  std::vector<Reply> items;

  bool is(Type t) const noexcept { return type == t; }
  // What a script answers: element `i` as text or number; empty or nothing when it is not there or not of that kind.
  std::string_view text_at(std::size_t i) const noexcept;
  std::optional<std::int64_t> number_at(std::size_t i) const noexcept;  // an integer, or decimal digits
};

// No answer dlock asks for comes near these: more is a broken or hostile server.
inline constexpr std::size_t max_reply_bytes = 1 << 20;
inline constexpr std::size_t max_reply_elements = 1 << 17;

class ReplyReader {
 public:
  ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;
  ~ReplyReader();

  // Errc::protocol: more than max_reply_bytes without a complete reply. The reader is useless afterwards.
  Result<void> feed(std::string_view bytes);
  // The next complete reply, or nothing yet. Errc::protocol: not RESP, or too many elements.
  Result<std::optional<Reply>> next();

 private:
  struct Free {
    void operator()(redisReader*) const noexcept;
  };
  std::unique_ptr<std::size_t> budget_;  // elements the current reply may still have; hiredis keeps the address
  std::unique_ptr<redisReader, Free> reader_;
  std::size_t pending_ = 0;  // bytes since the last complete reply
};

// Appends one command in wire format.
void append_command(std::string& out, std::span<const std::string_view> words);

}  // namespace dlock::redis
