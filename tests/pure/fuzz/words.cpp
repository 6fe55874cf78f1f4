// SPDX-License-Identifier: Apache-2.0
// The words of the command line and of records: durations, keys, URLs, handles, sequencers.
#include <string>
#include "core/duration.hpp"
#include "core/identity.hpp"
#include "core/key.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"
#include "core/url.hpp"
#include "store/last_run.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

bool shows_safely(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  return true;
}

void duration(std::string_view text) {
  const auto d = parse_duration(text);
  if (!d) return must(shows_safely(d.error().message), "the message has control characters");
  must(*d >= Duration::zero(), "a negative duration");
  const std::string shown = format_duration(*d);
  // Microseconds are shown, and no option takes them.
  if (shown.ends_with("us")) return must(*d < std::chrono::milliseconds{1}, "shown as " + shown);
  const auto again = parse_duration(shown);
  must(again.has_value(), "the text of a duration is not a duration: " + shown);
  must(*again <= *d, "the text of a duration is longer than the duration: " + shown);
}

void key(std::string_view text) {
  const auto k = Key::parse(text);
  if (!k) return must(shows_safely(k.error().message), "the message has control characters");
  must(k->text() == text, "a key is not its text");
  const std::string name = store_name(*k);
  must(name.size() <= 200, "a name in a store is too long");
  if (const auto back = key_from_store_name(name))
    must(*back == *k, "the name in a store is another key's: " + name);
  const auto decoded = percent_decode(percent_encode(text));
  must(decoded.has_value() && *decoded == text, "percent encoding loses bytes");
}

void url(std::string_view text) {
  const auto u = Url::parse(text);
  if (!u) return must(shows_safely(u.error().message), "the message has control characters");
  const std::string shown = u->redacted();
  must(shows_safely(shown), "a redacted URL has control characters");
  // long enough not to be part of the rest by chance
  if (u->password.size() >= 8 && u->password != u->user)
    must(shown.find(u->password) == shown.npos || text.find(u->password) != text.rfind(u->password),
         "a redacted URL shows its password");
  for (const auto& host : u->hosts) must(!host.name.empty(), "an empty host");
}

void handle(std::string_view text) {
  if (const auto h = Handle::parse(text)) {
    const auto again = Handle::parse(h->text());
    must(again.has_value() && again->text() == h->text(), "a handle's text is another handle");
  } else if (text.size() >= 40) {
    // The secret of a handle is 32 hex digits; other text may be that of the message by chance.
    const std::string_view secret = text.substr(text.size() - 32);
    const bool hex = secret.find_first_not_of("0123456789abcdefABCDEF") == secret.npos;
    must(!hex || h.error().message.find(secret) == std::string::npos,
         "the message repeats the secret");
  }
  if (const auto s = Sequencer::parse(text)) {
    const auto again = Sequencer::parse(s->text());
    must(again.has_value() && again->text() == s->text(), "a sequencer's text is another one");
    must(s->token > 0, "a token of 0");
  }
  if (const auto token = parse_token(text))
    must(std::to_string(*token) == text, "a token has more than one spelling");
}

void identity(std::string_view text) {
  const Identity who = Identity::decode(text);
  must(shows_safely(who.text()), "an identity shows control characters");
  const Identity again = Identity::decode(who.encode());
  must(again.encode() == who.encode(), "an identity changes when it is stored again");
  for (const char between : {' ', '|'})
    if (const auto run = LastRun::parse(text, between)) {
      const auto stored = LastRun::parse(run->text(between), between);
      must(stored.has_value() && stored->token == run->token, "a last run changes when stored");
      must(run->started >= 0 && run->ended >= 0, "a last run before 1970");
    }
  must(shows_safely(printable(text)), "printable() lets control characters through");
  must(shows_safely(quoted(text)), "quoted() lets control characters through");
}

const Added word_targets[] = {
    {"duration", duration}, {"key", key}, {"url", url}, {"handle", handle}, {"identity", identity}};

}  // namespace
}  // namespace dlock::fuzz
