// SPDX-License-Identifier: Apache-2.0
#include "core/identity.hpp"
#include <pwd.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include "core/clock.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

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
  return std::max<std::int64_t>(parse_number<std::int64_t>(text).value_or(0), 0);
}

// The format is `pid.name pid.name`, with percent-encoded names.
std::string encoded(const std::vector<ProgramEnded::Process>& processes) {
  std::string out;
  for (const auto& p : processes)
    add_part(out, std::to_string(p.pid).append(".").append(percent_encode(p.name)), " ");
  return out;
}
std::vector<ProgramEnded::Process> processes_in(std::string_view text) {
  std::vector<ProgramEnded::Process> found;
  while (!text.empty()) {
    std::string_view rest = next_part(text, ' ');
    const std::int64_t pid = positive(next_part(rest, '.'));
    if (auto name = percent_decode(rest); name && pid > 0) found.push_back({pid, std::move(*name)});
  }
  return found;
}

std::string this_host() {
  std::array<char, 256> host{};  // HOST_NAME_MAX is 64
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

}  // namespace

std::string RunEnd::text() const { return (by_signal ? "s" : "") + std::to_string(value); }

std::optional<RunEnd> RunEnd::parse(std::string_view text) {
  RunEnd end;
  end.by_signal = text.starts_with('s');
  if (end.by_signal) text.remove_prefix(1);
  const auto value = parse_number<unsigned>(text);
  if (!value || *value > 255) return std::nullopt;
  end.value = static_cast<int>(*value);
  return end;
}

std::string ProgramEnded::left_text() const {
  std::string text;
  for (const Process& p : left)
    add_part(text, printable(p.name) + '[' + std::to_string(p.pid) + ']');
  return text;
}

std::string ProgramEnded::encode() const {
  std::string out;
  put(out, "ended", std::to_string(at).append(".").append(end.text()));
  put(out, "left", encoded(left));
  return out;
}

std::string with_end(std::string_view identity, std::string_view ended) {
  if (ended.empty()) return std::string(identity);
  const std::string_view before = identity.substr(0, identity.find("&ended="));
  return std::string(before).append("&").append(ended);
}

Identity Identity::mine(std::string reason) {
  return {.host = this_host(),
          .user = std::to_string(::getuid()),
          .pid = ::getpid(),
          .since = wall_micros(),
          .reason = std::move(reason),
          .command = {},
          .limit = 0};
}

bool Identity::of_this_host() const { return !host.empty() && host == this_host(); }

std::string Identity::user_name() const {
  const std::int64_t uid = user == "0" ? 0 : positive(user);
  if (!of_this_host() || (uid == 0 && user != "0")) return user;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/etc/passwd", "re"),
                                                             std::fclose);
  passwd entry{}, *found = nullptr;
  for (std::array<char, 1024> room{};
       file && ::fgetpwent_r(file.get(), &entry, room.data(), room.size(), &found) == 0;)
    if (found->pw_uid == static_cast<uid_t>(uid)) return found->pw_name;
  return user;
}

std::string Identity::text() const {
  std::string out = host.empty() ? "?" : printable(host);
  if (pid > 0) out += ":" + std::to_string(pid);
  if (const std::string name = user_name(); !name.empty()) out += " (" + printable(name) + ")";
  return out;
}

std::string Identity::encode() const {
  std::string out;
  put(out, "host", host);
  put(out, "pid", pid);
  put(out, "user", user);
  put(out, "since", since);
  put(out, "reason", reason);
  put(out, "command", command);
  put(out, "limit", limit);
  if (process)
    put(out, "proc",
        std::to_string(process->start).append(".").append(std::to_string(process->pid_namespace)));
  if (kept_by != KeptBy::process) put(out, "kept", kept_by == KeptBy::keeper ? "keeper" : "nobody");
  return ended ? with_end(out, ended->encode()) : out;
}

Identity Identity::decode(std::string_view text) {
  Identity who;
  while (!text.empty()) {
    const std::string_view item = next_part(text, '&');
    const std::size_t equals = item.find('=');
    if (equals == item.npos) continue;
    const std::string_view name = item.substr(0, equals);
    auto value = percent_decode(item.substr(equals + 1));
    if (!value) continue;
    std::string* const field = name == "host"      ? &who.host
                               : name == "user"    ? &who.user
                               : name == "reason"  ? &who.reason
                               : name == "command" ? &who.command
                                                   : nullptr;
    if (field) {
      *field = std::move(*value);
    } else if (name == "pid") {
      who.pid = positive(*value);
    } else if (name == "since") {
      who.since = positive(*value);
    } else if (name == "limit") {
      who.limit = parse_number<unsigned>(*value).value_or(0);
    } else if (name == "proc") {
      std::string_view rest = *value;
      const auto start = leading_number<std::uint64_t>(rest);
      const auto space =
          parse_number<std::uint64_t>(rest.substr(std::min<std::size_t>(1, rest.size())));
      if (start && space && rest.starts_with('.')) who.process = Process{*start, *space};
    } else if (name == "kept") {
      who.kept_by = *value == "keeper"   ? KeptBy::keeper
                    : *value == "nobody" ? KeptBy::nobody
                                         : KeptBy::process;
    } else if (name == "ended") {
      std::string_view rest = *value;
      const auto at = parse_number<std::int64_t>(next_part(rest, '.'));
      if (const auto end = RunEnd::parse(rest); at && *at > 0 && end)
        who.ended = ProgramEnded{*at, *end, {}};
    } else if (name == "left" && who.ended) {  // the encoded text has `ended` before `left`
      who.ended->left = processes_in(*value);
    }
  }
  return who;
}

}  // namespace dlock
