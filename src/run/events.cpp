// SPDX-License-Identifier: Apache-2.0
#include "run/events.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include "core/duration.hpp"

namespace dlock::run {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Deadline t) { return static_cast<double>(t.time_since_epoch().count() / 1000) / 1e6; }

void add(Json& line, Events::Fields fields) {
  for (const auto& [name, value] : fields) std::visit([&, n = name](const auto& v) { line[n] = v; }, value);
}

std::string text(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string utc_now() {
  const std::int64_t now = wall_micros();
  const std::time_t seconds = now / 1'000'000;
  std::tm t{};
  ::gmtime_r(&seconds, &t);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min,
                     t.tm_sec, now / 1000 % 1000);
}

Result<Fd> open_for_append(const std::string& path, const char* option) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
  if (!fd) return fail(Errc::cannot_create, fmt::format("{} {}: {}", option, printable(path), std::strerror(errno)));
  return fd;
}

}  // namespace

Events::Events(const Plan& plan) : plan_(plan), writer_(*new Writer) {}

Result<void> Events::open() {
  for (auto [path, fd, option] : {std::tuple{&plan_.say.status_file, &status_file_, "--status-file"},
                                  std::tuple{&plan_.say.trace_file, &trace_file_, "--trace"}}) {
    if (path->empty()) continue;
    auto opened = open_for_append(*path, option);
    if (!opened) return fail(opened.error());
    *fd = std::move(*opened);
  }
  return {};
}

void Events::status(const char* name, Fields fields) {
  if (plan_.say.verbosity > 0) tell(name, fields);
  if (plan_.say.status_fd < 0 && !status_file_) return;
  Json line{{"event", name}, {"t", seconds(Clock::now())}, {"key", plan_.request.key.text()}};
  add(line, fields);
  writer_.write(plan_.say.status_fd, text(line));
  writer_.write(status_file_.get(), text(line));
}

void Events::tell(std::string_view name, Fields fields) {
  const bool milestone = name == "acquired" || name == "released" || name == "detached" || name == "left";
  if (!milestone && plan_.say.verbosity < 2) return;
  std::string line = fmt::format("{}: {}", plan_.request.key.text(), name);
  const char* between = ": ";
  for (const auto& [field, value] : fields) {
    std::visit([&, f = field](const auto& v) { line += fmt::format("{}{} {}", between, f, v); }, value);
    between = ", ";
  }
  words(printable(line));
}

void Events::trace(const char* ev, const char* f, Fields fields) {
  if (!trace_file_) return;
  Json line{{"t", Clock::now().time_since_epoch().count()},
            {"pid", ::getpid()},
            {"ev", ev},
            {"f", f},
            {"key", plan_.request.key.text()},
            {"owner", plan_.request.owner.hex().substr(0, 8)}};
  add(line, fields);
  writer_.write(trace_file_.get(), text(line));
}

void Events::trace_result(const char* f, const char* ev, std::optional<Deadline> deadline) {
  if (deadline && *deadline != no_deadline) trace(ev, f, {{"deadline", deadline->time_since_epoch().count()}});
  else trace(ev, f);
}

void Events::trace_granted(const Lease& lease) {
  if (lease.deadline == no_deadline) trace("ok", "acquire", {{"token", static_cast<std::int64_t>(lease.token)}});
  else
    trace("ok", "acquire",
          {{"token", static_cast<std::int64_t>(lease.token)}, {"deadline", lease.deadline.time_since_epoch().count()}});
}

void Events::words(std::string_view line) {
  if (!plan_.say.quiet) own_word("info", line);
}

void Events::error(std::string_view line) { own_word("error", line); }

void Events::own_word(const char* level, std::string_view line) {
  if (line.empty()) return;
  if (!plan_.say.json) return writer_.write(STDERR_FILENO, fmt::format("dlock: {}\n", line));
  const Json j{{"time", utc_now()}, {"level", level}, {"pid", ::getpid()}, {"key", plan_.request.key.text()}, {"message", line}};
  writer_.write(STDERR_FILENO, text(j));
}

void Events::raw(std::string t) { writer_.write(STDERR_FILENO, std::move(t)); }

std::string Events::held_line(const std::optional<HolderView>& holder, const std::string& why) const {
  const std::string key = printable(plan_.request.key.text());
  if (!holder) return why.empty() ? fmt::format("{} is not free", key) : fmt::format("{}: {}", key, printable(why));
  const Identity& who = holder->who;
  const bool nameless = who.host.empty();  // another program's
  if (nameless && who.pid <= 0 && !why.empty()) return fmt::format("{}: {}", key, printable(why));
  const std::string stranger = who.pid > 0 ? fmt::format("process {}, which is not dlock's", who.pid) : "somebody";
  std::string line = fmt::format("{} is held by {}", key, nameless ? stranger : who.text());
  if (const auto age = wall_micros() - who.since; who.since > 0 && age >= 0) line += " for " + format_duration(Duration(age));
  if (!who.reason.empty()) line += fmt::format(": {}", printable(who.reason));
  if (holder->vanished) line += " (gone; its lock-delay is running)";
  if (!why.empty()) line += fmt::format(": {}", printable(why));
  return line;
}

std::string Events::busy_line(const std::optional<HolderView>& holder, const std::string& why) const {
  if (plan_.say.quiet || plan_.conflict_status == 0) return {};
  return held_line(holder, why) +
         (plan_.wait && *plan_.wait > Duration{} ? "; waited " + format_duration(*plan_.wait) : "; not waiting");
}

std::string Events::started_line(Duration ago) const {
  if (plan_.say.quiet || plan_.conflict_status == 0) return {};
  return fmt::format("{} was started {} ago; not again (--once-per {})", printable(plan_.request.key.text()),
                     format_duration(ago), plan_.once_per->text());
}

std::string Events::started_ahead_line(Duration ahead, bool corrected) const {
  if (plan_.say.quiet || plan_.conflict_status == 0) return {};
  return fmt::format("{} was started in the future by the store's clock ({} ahead){}; not again (--once-per {})",
                     printable(plan_.request.key.text()), format_duration(ahead),
                     corrected ? ", which from now on counts as a start of now" : "", plan_.once_per->text());
}

}  // namespace dlock::run
