// SPDX-License-Identifier: Apache-2.0
#include "redis/reply.hpp"
#include <fmt/format.h>
#include <hiredis/read.h>
#include <charconv>

namespace dlock::redis {
namespace {

// hiredis asks for one object per element and says where in the tree it belongs. Elements of an array live in their parent's vector,
// so only the root is ever freed.
Reply* place(const redisReadTask* task) noexcept {
  if (!task->parent) return new Reply;
  auto* parent = static_cast<Reply*>(task->parent->obj);
  return &parent->items[static_cast<std::size_t>(task->idx)];
}

void* make_string(const redisReadTask* task, char* text, std::size_t length) noexcept {
  Reply* r = place(task);
  r->type = task->type == REDIS_REPLY_ERROR    ? Reply::Type::error
            : task->type == REDIS_REPLY_STATUS ? Reply::Type::status
                                               : Reply::Type::string;
  r->text.assign(text, length);
  return r;
}

// hiredis 0.14 counts with int, 1.x with size_t.
void* make_array(const redisReadTask* task, auto elements) noexcept {
  auto& budget = *static_cast<std::size_t*>(task->privdata);
  const auto count = static_cast<std::size_t>(elements);
  if (elements < 0 || count > budget) return nullptr;  // hiredis reports "out of memory"
  budget -= count;
  Reply* r = place(task);
  r->type = Reply::Type::array;
  r->items.resize(count);
  return r;
}

void* make_integer(const redisReadTask* task, long long value) noexcept {
  Reply* r = place(task);
  r->type = Reply::Type::integer;
  r->integer = value;
  return r;
}

void* make_nil(const redisReadTask* task) noexcept { return place(task); }

void destroy(void* root) noexcept { delete static_cast<Reply*>(root); }

redisReplyObjectFunctions& functions() noexcept {
  static redisReplyObjectFunctions f = [] {
    redisReplyObjectFunctions made{};
    made.createString = make_string;
    made.createArray = [](const redisReadTask* task, auto elements) -> void* { return make_array(task, elements); };
    made.createInteger = make_integer;
    made.createNil = make_nil;
    made.freeObject = destroy;
    return made;
  }();
  return f;
}

}  // namespace

std::string_view Reply::text_at(std::size_t i) const noexcept {
  if (i >= items.size()) return {};
  const Reply& r = items[i];
  return r.type == Type::string || r.type == Type::status ? std::string_view{r.text} : std::string_view{};
}

std::optional<std::int64_t> Reply::number_at(std::size_t i) const noexcept {
  if (i >= items.size()) return std::nullopt;
  if (items[i].type == Type::integer) return items[i].integer;
  const std::string_view number = text_at(i);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  return value;
}

ReplyReader::ReplyReader()
    : budget_(std::make_unique<std::size_t>(max_reply_elements)), reader_(redisReaderCreateWithFunctions(&functions())) {
  reader_->privdata = budget_.get();
}
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;
ReplyReader::~ReplyReader() = default;

void ReplyReader::Free::operator()(redisReader* r) const noexcept { redisReaderFree(r); }

Result<void> ReplyReader::feed(std::string_view bytes) {
  pending_ += bytes.size();
  if (pending_ > max_reply_bytes) return fail(Errc::protocol, fmt::format("the reply is longer than {} bytes", max_reply_bytes));
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != 0)
    return fail(Errc::protocol, fmt::format("unreadable reply: {}", reader_->errstr));
  return {};
}

Result<std::optional<Reply>> ReplyReader::next() {
  void* root = nullptr;
  if (redisReaderGetReply(reader_.get(), &root) != 0)
    return fail(Errc::protocol, fmt::format("unreadable reply: {}", reader_->errstr));
  if (!root) return std::nullopt;
  const std::unique_ptr<Reply> owned{static_cast<Reply*>(root)};
  *budget_ = max_reply_elements;
  pending_ = 0;
  return std::optional<Reply>{std::move(*owned)};
}

void append_command(std::string& out, std::span<const std::string_view> words) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "*{}\r\n", words.size());
  for (const auto word : words) fmt::format_to(to, "${}\r\n{}\r\n", word.size(), word);
}

}  // namespace dlock::redis
