// SPDX-License-Identifier: Apache-2.0
#include "core/identity.hpp"
#include <unistd.h>
#include <array>
#include <charconv>
#include "core/clock.hpp"
#include "core/key.hpp"

namespace dlock {
namespace {

void put(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  if (!out.empty()) out += '&';
  out.append(name).append("=").append(percent_encode(value));
}
void put(std::string& out, std::string_view name, std::int64_t value) {
  if (value != 0) put(out, name, std::to_string(value));
}

std::int64_t positive(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value > 0 ? value : 0;
}

}  // namespace

Identity Identity::mine(std::string reason) {
  std::array<char, 256> host{};  // HOST_NAME_MAX is 64
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return {.host = host.data(),
          .user = std::to_string(::getuid()),
          .pid = ::getpid(),
          .since = wall_micros(),
          .reason = std::move(reason),
          .command = {}};
}

std::string Identity::encode() const {
  std::string out;
  put(out, "host", host);
  put(out, "pid", pid);
  put(out, "user", user);
  put(out, "since", since);
  put(out, "reason", reason);
  put(out, "command", command);
  return out;
}

Identity Identity::decode(std::string_view text) {
  Identity who;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t equals = item.find('=');
    if (equals == item.npos) continue;
    const std::string_view name = item.substr(0, equals);
    auto value = percent_decode(item.substr(equals + 1));
    if (!value) continue;
    if (name == "host") {
      who.host = std::move(*value);
    } else if (name == "user") {
      who.user = std::move(*value);
    } else if (name == "pid") {
      who.pid = positive(*value);
    } else if (name == "since") {
      who.since = positive(*value);
    } else if (name == "reason") {
      who.reason = std::move(*value);
    } else if (name == "command") {
      who.command = std::move(*value);
    }
  }
  return who;
}

}  // namespace dlock
