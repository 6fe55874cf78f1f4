// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/server_error.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include "core/text.hpp"

namespace dlock::redis {
namespace {

constexpr std::array known{
    ServerError{"NOSCRIPT", Remedy::send_text, Errc::unavailable, ""},
    ServerError{"MOVED", Remedy::elsewhere, Errc::unavailable,
                "a node of a cluster: use redis+cluster://"},
    // Most of the keys of one lock do not exist at any moment, and no node executes such a script
    // for a slot that is being moved.
    ServerError{"ASK", Remedy::later, Errc::unavailable, "the slot is being moved to another node"},
    ServerError{"READONLY", Remedy::elsewhere, Errc::unavailable,
                "a replica; locks live on the master"},
    ServerError{"UNBLOCKED", Remedy::elsewhere, Errc::unavailable, "the server changed its role"},
    ServerError{"MASTERDOWN", Remedy::elsewhere, Errc::unavailable, ""},
    ServerError{"LOADING", Remedy::later, Errc::unavailable, ""},
    // A node that is cut off from the others says so as long as that lasts; they may have another
    // master meanwhile.
    ServerError{"CLUSTERDOWN", Remedy::elsewhere, Errc::unavailable,
                "the node has no contact with the others, or slots have no master"},
    ServerError{"TRYAGAIN", Remedy::later, Errc::unavailable, ""},
    ServerError{"BUSY", Remedy::later, Errc::unavailable, "another script runs"},
    ServerError{"OOM", Remedy::later, Errc::unavailable, "maxmemory is reached"},
    ServerError{"MISCONF", Remedy::later, Errc::unavailable, "the server cannot save to its disk"},
    ServerError{"NOREPLICAS", Remedy::later, Errc::unavailable,
                "fewer replicas than min-replicas-to-write"},
    ServerError{"NOAUTH", Remedy::none, Errc::denied,
                "give a password: --password-file, DLOCK_PASSWORD or REDISCLI_AUTH"},
    ServerError{"WRONGPASS", Remedy::none, Errc::denied,
                "user and password: the URL, --password-file, DLOCK_PASSWORD or REDISCLI_AUTH"},
    ServerError{"NOPERM", Remedy::none, Errc::denied,
                "the rights dlock needs are in dlock-redis(7)"},
    ServerError{"DENIED", Remedy::none, Errc::denied, "protected mode"},
    ServerError{"WRONGTYPE", Remedy::none, Errc::usage,
                "something else lives under this key, or a lock of a dlock before 0.1.0, whose "
                "layout was another: choose another --key or ?prefix=, or delete it"},
    ServerError{"DLOCKDATA", Remedy::none, Errc::usage,
                "something else lives under this key: choose another --key or ?prefix="},
    ServerError{"DLOCKLAYOUT", Remedy::none, Errc::usage,
                "a newer dlock wrote it: install that one on this host, too"},
    ServerError{"CROSSSLOT", Remedy::none, Errc::usage, ""},
};

// Errors that start with ERR and are distinguished by their text.
constexpr std::array phrases{
    ServerError{"max number of clients", Remedy::later, Errc::unavailable, ""},
    // In a script, where it is not a NOPERM.
    ServerError{"can't run this command", Remedy::none, Errc::denied,
                "the rights dlock needs are in dlock-redis(7)"},
    ServerError{"can't access at least one of the keys", Remedy::none, Errc::denied,
                "the rights dlock needs are in dlock-redis(7)"},
    ServerError{"unknown command", Remedy::none, Errc::denied,
                "the server or a proxy before it does not offer this command"},
    ServerError{"invalid password", Remedy::none, Errc::denied, ""},
    ServerError{"without any password configured", Remedy::none, Errc::denied,
                "the server asks for no password"},
    ServerError{"DB index", Remedy::none, Errc::usage, ""},
    ServerError{"SELECT is not allowed in cluster mode", Remedy::none, Errc::usage, ""},
};

bool is_word_char(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool contains_word(std::string_view text, std::string_view word) noexcept {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_char(text[at - 1])) && (end == text.size() || text[end] == ' '))
      return true;
  }
  return false;
}

Error shown(const ServerError& e, std::string_view what, std::string_view where,
            std::string_view text) {
  return refused(e.code, what, where, text.substr(0, 200), e.advice);
}

}  // namespace

ServerError classify(std::string_view text) noexcept {
  const std::string_view first = text.substr(0, text.find(' '));
  for (const auto& e : known)
    if (e.word == first) return e;
  // Inside a script the word comes later. Only there: elsewhere the rest of the text may quote what
  // a client sent.
  if (text.find("script") != text.npos)
    for (const auto& e : known)
      if (contains_word(text, e.word)) return e;
  for (const auto& e : phrases)
    if (text.find(e.word) != text.npos) return e;
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

}  // namespace dlock::redis
