// SPDX-License-Identifier: Apache-2.0
#include "core/sequencer.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock {
namespace {

constexpr std::string_view sequencer_form = "v1:FAMILY.RECIPE:KEY:X|S|P:TOKEN";
constexpr std::string_view handle_form = "h1:FAMILY.RECIPE:32 hex digits";

// Removes the next field and its colon from the text, and returns the field.
std::optional<std::string_view> next_field(std::optional<std::string_view>& rest) {
  if (!rest) return std::nullopt;
  const std::size_t colon = rest->find(':');
  const std::string_view field = rest->substr(0, colon);
  rest = colon == rest->npos ? std::nullopt : std::optional{rest->substr(colon + 1)};
  return field;
}

bool is_name(std::string_view text) noexcept {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-'; };
  return !text.empty() && std::ranges::all_of(text, fits);
}

struct Kind {
  std::string_view family, recipe;
};
std::optional<Kind> parse_kind(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == text.npos) return std::nullopt;
  const Kind kind{text.substr(0, dot), text.substr(dot + 1)};
  if (!is_name(kind.family) || !is_name(kind.recipe)) return std::nullopt;
  return kind;
}

// Parses <key>=<owner>[=<extra>], and accepts only the form that Handle::text() writes.
std::optional<Handle::Other> parse_other(std::string_view field) {
  const std::size_t end_of_key = field.find('=');
  if (end_of_key == field.npos) return std::nullopt;
  const std::string_view encoded = field.substr(0, end_of_key);
  field.remove_prefix(end_of_key + 1);
  const std::size_t end_of_owner = field.find('=');
  const auto owner = Owner::parse(field.substr(0, end_of_owner));
  const std::string_view extra = end_of_owner == field.npos ? "" : field.substr(end_of_owner + 1);
  const auto name = percent_decode(encoded), decoded = percent_decode(extra);
  if (!owner || !name || !decoded || percent_encode(*name) != encoded ||
      percent_encode(*decoded) != extra)
    return std::nullopt;
  if (end_of_owner != field.npos && extra.empty()) return std::nullopt;
  auto key = Key::parse(*name);
  if (!key) return std::nullopt;
  return Handle::Other{std::move(*key), *owner, *decoded};
}

}  // namespace

Sequencer Sequencer::of(std::string_view family, std::string_view recipe, const Lease& l) {
  return {std::string{family}, std::string{recipe}, l.key, l.mode, l.token};
}

std::string Sequencer::text() const {
  return fmt::format("v1:{}.{}:{}:{}:{}", family, recipe, percent_encode(key.text()),
                     static_cast<char>(mode), token);
}

Result<Sequencer> Sequencer::parse(std::string_view text) {
  const auto bad = [&](std::string_view what) {
    return fail(Errc::usage, "{} is not a sequencer ({}); allowed is {}", quoted(text), what,
                sequencer_form);
  };
  std::optional rest{text};
  if (next_field(rest) != "v1") return bad("it does not begin with v1:");
  const auto kind = next_field(rest), name = next_field(rest), mode = next_field(rest),
             token = next_field(rest);
  if (!token) return bad("fields are missing");
  if (rest) return bad("there is something after the token");

  const auto parsed_kind = parse_kind(*kind);
  if (!parsed_kind) return bad("family and recipe are lower-case words with a dot between");
  const auto decoded = percent_decode(*name);
  if (!decoded) return bad("the key has a broken %XX");
  auto key = Key::parse(*decoded);
  if (!key) return bad("the key is 1 to 200 bytes of UTF-8 without control characters");
  // Each grant has exactly one text; refuse any other text.
  if (percent_encode(key->text()) != *name) return bad("the key is not encoded as dlock does");
  const auto parsed_mode = parse_mode(*mode);
  if (!parsed_mode) return bad("the mode is X, S or P");
  const auto parsed_token = parse_token(*token);
  if (!parsed_token) return bad("the token is a number from 1 to 18446744073709551615");
  return Sequencer{std::string{parsed_kind->family}, std::string{parsed_kind->recipe},
                   std::move(*key), *parsed_mode, *parsed_token};
}

Handle Handle::of(std::string_view family, std::string_view recipe, const std::vector<Lease>& all) {
  const Lease& first = all.front();
  Handle h{std::string{family}, std::string{recipe}, first.owner, first.ticket};
  for (const Lease& l : all)
    if (l.owner != first.owner || l.ticket != first.ticket)
      h.others.push_back({l.key, l.owner, l.ticket});
  return h;
}

Lease Handle::lease(const Key& key) const {
  for (const Other& o : others)
    if (o.key == key) return {.key = key, .owner = o.owner, .ticket = o.extra};
  return {.key = key, .owner = owner, .ticket = extra};
}

std::string Handle::text() const {
  std::string out = fmt::format("h1:{}.{}:{}", family, recipe, owner.hex());
  if (!extra.empty() || !others.empty()) out.append(":").append(percent_encode(extra));
  for (const Other& o : others) {
    out += fmt::format(":{}={}", percent_encode(o.key.text()), o.owner.hex());
    if (!o.extra.empty()) out.append("=").append(percent_encode(o.extra));
  }
  return out;
}

Result<Handle> Handle::parse(std::string_view text) {
  // The input may be a secret: the message describes it, and never quotes it.
  const auto bad = [&](std::string_view what) {
    return fail(Errc::usage, "--handle: {}; allowed is what dlock acquire printed, {}", what,
                handle_form);
  };
  std::optional rest{text};
  if (next_field(rest) != "h1") return bad("it does not begin with h1:");
  const auto kind = next_field(rest), hex = next_field(rest), extra = next_field(rest);
  if (!hex) return bad("fields are missing");
  const bool more = rest.has_value();
  std::vector<Other> others;
  while (rest) {
    auto other = parse_other(*next_field(rest));
    if (!other) return bad("the owner of one of several keys is broken");
    others.push_back(std::move(*other));
  }

  const auto parsed_kind = parse_kind(*kind);
  if (!parsed_kind) return bad("family and recipe are not lower-case words with a dot between");
  const auto owner = Owner::parse(*hex);
  if (!owner) return bad("the owner is not 32 lower-case hex digits");
  auto decoded = percent_decode(extra.value_or(""));
  if (!decoded || (extra && ((extra->empty() && !more) || percent_encode(*decoded) != *extra)))
    return bad("the field after the owner is broken");
  return Handle{std::string{parsed_kind->family}, std::string{parsed_kind->recipe}, *owner,
                std::move(*decoded), std::move(others)};
}

Result<FencingToken> parse_token(std::string_view text) {
  const auto token = parse_number<FencingToken>(text);
  if (!token || text.front() == '0')
    return fail(Errc::usage,
                "{} is not a fencing token; allowed is a number from 1 to 18446744073709551615",
                quoted(text));
  return *token;
}

}  // namespace dlock
