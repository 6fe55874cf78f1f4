// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/reply.hpp"
#include <fmt/format.h>
#include <hiredis/read.h>
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock::redis {
namespace {

// Returns the object for an element of a reply. The elements of an array live in the vector of
// their parent, so only the root is ever freed.
Reply* place(const redisReadTask* task) noexcept {
  if (!task->parent) return new Reply;
  auto* parent = static_cast<Reply*>(task->parent->obj);
  return &parent->items[static_cast<std::size_t>(task->idx)];
}

ReplyLimits& limits(const redisReadTask* task) noexcept {
  return *static_cast<ReplyLimits*>(task->privdata);
}

// Refuses a RESP3 type, which servers send only after HELLO 3. hiredis reports the missing object
// as "out of memory"; next() replaces that message.
void* refuse(const redisReadTask* task) noexcept {
  limits(task).unknown_type = true;
  return nullptr;
}

void* make_string(const redisReadTask* task, char* text, std::size_t length) noexcept {
  // hiredis 1.x also calls this for big numbers and verbatim strings.
  if (task->type != REDIS_REPLY_ERROR && task->type != REDIS_REPLY_STATUS &&
      task->type != REDIS_REPLY_STRING)
    return refuse(task);
  Reply* r = place(task);
  r->type = task->type == REDIS_REPLY_ERROR    ? Reply::Type::error
            : task->type == REDIS_REPLY_STATUS ? Reply::Type::status
                                               : Reply::Type::string;
  r->text.assign(text, length);
  return r;
}

// hiredis 0.14 counts with int, 1.x with size_t; 1.x also calls this for maps, sets and pushes.
void* make_array(const redisReadTask* task, auto elements) noexcept {
  if (task->type != REDIS_REPLY_ARRAY) return refuse(task);
  std::size_t& budget = limits(task).elements;
  const auto count = static_cast<std::size_t>(elements);
  if (elements < 0 || count > budget) return nullptr;  // hiredis will report "out of memory"
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

// hiredis 1.x has functions for doubles and booleans. If they were not set, hiredis would use a
// made-up address as the object.
template <class Functions>
void refuse_newer_types(Functions& f) {
  if constexpr (requires { f.createDouble; })
    f.createDouble = [](const redisReadTask* task, double, char*, std::size_t) -> void* {
      return refuse(task);
    };
  if constexpr (requires { f.createBool; })
    f.createBool = [](const redisReadTask* task, int) -> void* { return refuse(task); };
}

redisReplyObjectFunctions& functions() noexcept {
  static redisReplyObjectFunctions f = [] {
    redisReplyObjectFunctions made{};
    made.createString = make_string;
    made.createArray = [](const redisReadTask* task, auto elements) -> void* {
      return make_array(task, elements);
    };
    made.createInteger = make_integer;
    made.createNil = make_nil;
    made.freeObject = destroy;
    refuse_newer_types(made);
    return made;
  }();
  return f;
}

}  // namespace

std::string_view Reply::text_at(std::size_t i) const noexcept {
  if (i >= items.size()) return {};
  const Reply& r = items[i];
  return r.type == Type::string || r.type == Type::status ? std::string_view{r.text}
                                                          : std::string_view{};
}

std::optional<std::int64_t> Reply::number_at(std::size_t i) const noexcept {
  if (i >= items.size()) return std::nullopt;
  if (items[i].type == Type::integer) return items[i].integer;
  return parse_number<std::int64_t>(text_at(i));
}

ReplyReader::ReplyReader() : reader_(redisReaderCreateWithFunctions(&functions())) {
  reader_->privdata = &limits_;
}

void ReplyReader::Free::operator()(redisReader* r) const noexcept { redisReaderFree(r); }

Result<void> ReplyReader::feed(std::string_view bytes) {
  pending_ += bytes.size();
  if (pending_ > max_reply_bytes)
    return fail(Errc::protocol, "the reply is longer than {} bytes", max_reply_bytes);
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != 0)
    return fail(Errc::protocol, "unreadable reply: {}", reader_->errstr);
  return {};
}

Result<std::optional<Reply>> ReplyReader::next() {
  void* root = nullptr;
  if (redisReaderGetReply(reader_.get(), &root) != 0) {
    if (limits_.unknown_type)
      return fail(Errc::protocol, "a reply of a type that was not asked for (RESP3)");
    return fail(Errc::protocol, "unreadable reply, is this Redis? ({})",
                printable(reader_->errstr));
  }
  if (!root) return std::nullopt;
  const std::unique_ptr<Reply> owned{static_cast<Reply*>(root)};
  limits_.elements = max_reply_elements;
  pending_ = 0;
  return std::optional<Reply>{std::move(*owned)};
}

// ---- error replies -----------------------------------------------------------------------------

namespace {

constexpr ServerError known[] = {
    {"NOSCRIPT", Remedy::send_text},
    {"MOVED", Remedy::elsewhere, Errc::unavailable, "a node of a cluster: use redis+cluster://"},
    // Most keys of a lock do not exist most of the time. While their slot is being moved, no node
    // runs a script that has such keys.
    {"ASK", Remedy::later, Errc::unavailable, "the slot is being moved to another node"},
    {"READONLY", Remedy::elsewhere, Errc::unavailable, "a replica; locks live on the master"},
    {"UNBLOCKED", Remedy::elsewhere, Errc::unavailable, "the server changed its role"},
    {"MASTERDOWN", Remedy::elsewhere},
    {"LOADING", Remedy::later},
    // A node that is cut off repeats this reply, while the other nodes may already have another
    // master.
    {"CLUSTERDOWN", Remedy::elsewhere, Errc::unavailable,
     "the node has no contact with the others, or slots have no master"},
    {"TRYAGAIN", Remedy::later},
    {"BUSY", Remedy::later, Errc::unavailable, "another script runs"},
    {"OOM", Remedy::later, Errc::unavailable, "maxmemory is reached"},
    {"MISCONF", Remedy::later, Errc::unavailable, "the server cannot save to its disk"},
    {"NOREPLICAS", Remedy::later, Errc::unavailable, "fewer replicas than min-replicas-to-write"},
    {"NOAUTH", Remedy::none, Errc::denied,
     "give a password: --password-file, DLOCK_PASSWORD or REDISCLI_AUTH"},
    {"WRONGPASS", Remedy::none, Errc::denied,
     "user and password: the URL, --password-file, DLOCK_PASSWORD or REDISCLI_AUTH"},
    {"NOPERM", Remedy::none, Errc::denied, "the rights dlock needs are in dlock-redis(7)"},
    {"DENIED", Remedy::none, Errc::denied, "protected mode"},
    {"WRONGTYPE", Remedy::none, Errc::usage,
     "something else lives under this key: choose another --key or ?prefix=, or delete it"},
    {"DLOCKDATA", Remedy::none, Errc::usage,
     "something else lives under this key: choose another --key or ?prefix="},
    {"DLOCKLAYOUT", Remedy::none, Errc::usage,
     "a newer dlock wrote it: install that one on this host, too"},
    {"CROSSSLOT", Remedy::none, Errc::usage, ""},
};

// Errors that start with ERR and are distinguished by their text.
constexpr ServerError phrases[] = {
    {"max number of clients", Remedy::later},
    // Inside a script, Redis reports a missing right in these words, and not as NOPERM.
    {"can't run this command", Remedy::none, Errc::denied,
     "the rights dlock needs are in dlock-redis(7)"},
    {"can't access at least one of the keys", Remedy::none, Errc::denied,
     "the rights dlock needs are in dlock-redis(7)"},
    {"unknown command", Remedy::none, Errc::denied,
     "the server or a proxy before it does not offer this command"},
    {"invalid password", Remedy::none, Errc::denied, ""},
    {"without any password configured", Remedy::none, Errc::denied,
     "the server asks for no password"},
    {"DB index", Remedy::none, Errc::usage, ""},
    {"SELECT is not allowed in cluster mode", Remedy::none, Errc::usage, ""},
};

bool is_word_char(char c) noexcept { return is_letter(c) || is_digit(c); }

bool contains_word(std::string_view text, std::string_view word) noexcept {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_char(text[at - 1])) && (end == text.size() || text[end] == ' '))
      return true;
  }
  return false;
}

// Drops what nobody needs: the arguments of a command that the server quotes (such as our script),
// and the name and line of the script that failed.
std::string_view without_script(std::string_view text) {
  text = text.substr(0, text.find(", with args beginning with"));
  text = text.substr(0, text.find(" script: "));
  constexpr std::string_view place = "user_script:";  // "user_script:31: ", "@user_script: 9: -"
  const std::size_t at = text.rfind(place);
  const std::size_t end = at == text.npos ? at : text.find(": ", at + place.size());
  if (end != text.npos) text.remove_prefix(end + 2);
  if (text.starts_with('-')) text.remove_prefix(1);
  return text;
}

Error shown(const ServerError& e, std::string_view what, std::string_view where,
            std::string_view text) {
  return refused(e.code, what, where, without_script(text).substr(0, 200), e.advice);
}

}  // namespace

ServerError classify(std::string_view text) noexcept {
  const std::string_view first = text.substr(0, text.find(' '));
  for (const auto& e : known)
    if (e.name == first) return e;
  // In the error of a script, the error's name comes later in the text. Search only errors of
  // scripts for it, because other texts may quote what a client sent.
  if (text.find("script") != text.npos)
    for (const auto& e : known)
      if (contains_word(text, e.name)) return e;
  for (const auto& e : phrases)
    if (text.find(e.name) != text.npos) return e;
  return {"", Remedy::none, Errc::protocol, ""};
}

Error as_error(std::string_view what, std::string_view where, std::string_view text) {
  return shown(classify(text), what, where, text);
}

Error as_login_error(std::string_view what, std::string_view where, std::string_view text,
                     std::string_view password) {
  const std::string_view said = first_sentence(text);
  const bool repeats = !password.empty() && text.find(password) < said.size();
  return shown(classify(said), what, where, repeats ? said.substr(0, said.find(' ')) : said);
}

// ---- connections -------------------------------------------------------------------------------

void append_command(std::string& out, std::span<const std::string_view> args) {
  const auto count = [&](char kind, std::size_t n) {
    const fmt::format_int digits{n};
    out.append(1, kind).append(digits.data(), digits.size()).append("\r\n");
  };
  count('*', args.size());
  for (const auto arg : args) {
    count('$', arg.size());
    out.append(arg).append("\r\n");
  }
}

void RespStream::add(std::span<const std::string_view> command) {
  std::string bytes;
  append_command(bytes, command);
  Transport::add(bytes);
}

Result<std::optional<Reply>> RespStream::receive() {
  for (std::string received;; received.clear()) {
    auto reply = reader_.next();
    if (!reply || *reply) return reply;
    TRY(more, Transport::receive(received));
    if (!more) return std::optional<Reply>{};
    TRY_VOID(reader_.feed(received));
  }
}

}  // namespace dlock::redis
