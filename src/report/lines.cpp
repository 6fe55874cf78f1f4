// SPDX-License-Identifier: Apache-2.0
#include "report/lines.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include "core/text.hpp"
#include "util/file.hpp"

namespace dlock::run {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(Json& line, std::span<const Field> fields) {
  for (const auto& [name, value] : fields)
    if (const auto* number = std::get_if<std::int64_t>(&value)) line[name] = *number;
    else if (const auto* text = std::get_if<std::string>(&value)) line[name] = *text;
    else if (const auto* all = std::get_if<std::vector<ProgramEnded::Process>>(&value))
      for (Json& list = line[name] = Json::array(); const auto& p : *all)
        list.push_back({{"pid", p.pid}, {"name", p.name}});
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

void add(Json& line, const char* name, std::string_view text) {
  if (!text.empty()) line[name] = text;
}

}  // namespace

std::string escaped(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

FieldValue nanoseconds(Deadline t) {
  return t == no_deadline ? FieldValue() : FieldValue(std::int64_t{t.time_since_epoch().count()});
}

std::string utc(std::int64_t micros) {
  const std::time_t seconds = micros / 1'000'000;
  std::tm t{};
  if (!::gmtime_r(&seconds, &t)) return "?";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, micros / 1000 % 1000);
}

std::string message_line(std::string_view level, std::string_view key, std::string_view message,
                         MessageFormat format) {
  if (format == MessageFormat::text) return fmt::format("dlock: {}\n", message);
  Json line{{"time", utc(wall_micros())}, {"level", level}, {"pid", ::getpid()}};
  add(line, "key", key);
  line["message"] = message;
  return line_of(line, {});
}

std::string status_line(std::string_view name, const Request& request,
                        std::span<const Field> fields) {
  const double t = static_cast<double>(Clock::now().time_since_epoch().count() / 1000) / 1e6;
  Json line{{"event", name},
            {"t", t},
            {"time", utc(wall_micros())},
            {"host", request.identity.host},
            {"key", request.key.text()}};
  return line_of(line, fields);
}

std::string trace_line(const TraceHead& what, std::span<const Field> fields) {
  Json line{{"t", Clock::now().time_since_epoch().count()},
            {"pid", ::getpid()},
            {"ev", what.ev},
            {"f", what.f}};
  add(line, "key", what.key);
  add(line, "owner", what.owner);
  return line_of(line, fields);
}

Result<Fd> open_lines(std::string_view option, const std::string& path) {
  Fd fd = open_to_write(path, O_APPEND, 0600);
  if (!fd)
    return fail(Errc::cannot_create, "{} {}: {}", option, dlock::quoted(path),
                ::strerrordesc_np(errno));
  return fd;
}

}  // namespace dlock::run
