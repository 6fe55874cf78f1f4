// SPDX-License-Identifier: Apache-2.0
#include "report/output.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <cstring>
#include "core/duration.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::run {

Output::Output(const Plan& plan) : plan_(plan), writer_(*new Writer) {
  writer_.on_failure = [this](int fd, int why) {
    if (fd == STDERR_FILENO) return;
    error(fmt::format("{}: {}; what is missing there is not written again",
                      fd == trace_file_.get() ? "--trace" : "--status", ::strerrordesc_np(why)));
  };
}

Result<void> Output::open() {
  for (auto [path, fd, option] : {std::tuple{&plan_.output.status_file, &status_file_, "--status"},
                                  std::tuple{&plan_.output.trace, &trace_file_, "--trace"}}) {
    if (path->empty()) continue;
    TRY(opened, open_lines(option, *path));
    *fd = std::move(opened);
  }
  return {};
}

void Output::status(const char* name, Fields fields, const std::string& milestone) {
  const std::string& key = plan_.request.key.text();
  if (plan_.output.verbosity > 0 && !milestone.empty()) {
    inform(fmt::format("{}: {}", printable(key), milestone));
  } else if (plan_.output.verbosity > 1) {
    std::string line = fmt::format("{}: {}", key, name);
    const char* between = ": ";
    for (const auto& [field, value] : fields) {
      if (const auto* number = std::get_if<std::int64_t>(&value))
        line += fmt::format("{}{} {}", between, field, *number);
      else if (const auto* text = std::get_if<std::string>(&value))
        line += fmt::format("{}{} {}", between, field, *text);
      else if (const auto* all = std::get_if<std::vector<ProgramEnded::Process>>(&value))
        line += fmt::format("{}{} {}", between, field, ProgramEnded{.left = *all}.left_text());
      else continue;
      between = ", ";
    }
    inform(printable(line));
  }
  const int to = status_file_ ? status_file_.get() : plan_.output.status_fd;
  if (to >= 0) writer_.write(to, status_line(name, plan_.request, {fields.begin(), fields.end()}));
}

std::string Output::age() const {
  return format_duration(std::chrono::duration_cast<Duration>(Clock::now() - began_));
}

void Output::trace(const char* ev, const char* f, Fields fields) {
  if (!trace_file_) return;
  const std::string owner = fmt::format("{:08x}", owner_.load());
  writer_.write(trace_file_.get(), trace_line({ev, f, plan_.request.key.text(), owner},
                                              {fields.begin(), fields.end()}));
}

void Output::remember(const Owner& owner) {
  std::uint32_t mark = 0;
  for (std::size_t i = 0; i < sizeof mark; ++i) mark = mark << 8U | owner.bytes[i];
  owner_ = mark;
}

void Output::trace_attempt(const Owner& owner) {
  remember(owner);
  const Request& request = plan_.request;
  if (request.mode == Mode::exclusive) trace("invoke", "acquire");
  else if (request.mode == Mode::shared) trace("invoke", "acquire", {{"mode", "shared"}});
  else trace("invoke", "acquire", {{"mode", "permit"}, {"limit", std::int64_t{request.limit}}});
}

void Output::trace_granted(const Lease& lease) {
  remember(lease.owner);
  trace("ok", "acquire",
        {{"token", static_cast<std::int64_t>(lease.token)},
         {"deadline", nanoseconds(lease.deadline)}});
}

void Output::inform(std::string_view line) {
  if (!plan_.output.quiet) message("info", line);
}

void Output::warn(std::string_view line) {
  if (!plan_.output.quiet) message("warning", line);
}

void Output::error(std::string_view line) { message("error", line); }

void Output::message(const char* level, std::string_view line) {
  if (line.empty()) return;
  writer_.write(STDERR_FILENO,
                message_line(level, plan_.request.key.text(), line,
                             plan_.output.log_json ? MessageFormat::json : MessageFormat::text));
}

Outcome Output::give_up(const Error& e) {
  error(e.message);
  flush(exit_flush_time);
  return {false, exit_status(e.code), Outcome::How::error};
}

void Output::raw(std::string t) { writer_.write(STDERR_FILENO, std::move(t)); }

std::string Output::key() const { return printable(plan_.request.key.text()); }

std::string Output::key_in_the_way(const std::string& other) const {
  return other.empty() ? key() : printable(other);
}

std::string Output::held_line(const Waiting& last) const {
  const auto& holder = last.holder;
  const std::string &why = last.why, held = key_in_the_way(last.key);
  if (!holder)
    return why.empty() ? fmt::format("{} is not free", held)
                       : fmt::format("{}: {}", held, printable(why));
  const Identity& who = holder->who;
  const bool nameless = who.host.empty();  // another program took the lock
  if (nameless && who.pid <= 0 && !why.empty()) return fmt::format("{}: {}", held, printable(why));
  const std::string stranger =
      who.pid > 0 ? fmt::format("process {}, which is not dlock's", who.pid) : "another program";
  std::string line = fmt::format("{} is held by {}", held, nameless ? stranger : who.text());
  if (const auto held_for = holder->held()) line += " for " + format_duration(*held_for);
  if (!who.reason.empty()) line += fmt::format(": {}", printable(who.reason));
  if (holder->vanished) line += " (gone; its lock-delay is running)";
  if (holder->mode == Mode::shared && plan_.request.mode == Mode::permit)
    line +=
        fmt::format(" (a --shared lock, which counts as one of --limit {})", plan_.request.limit);
  if (holder->mode == Mode::permit && plan_.request.mode == Mode::permit && who.limit != 0)
    line += who.limit == plan_.request.limit
                ? fmt::format(" (one of --limit {})", who.limit)
                : fmt::format(
                      " (one of --limit {}, and here it is --limit {}: use the same everywhere)",
                      who.limit, plan_.request.limit);
  if (!why.empty()) line += fmt::format(": {}", printable(why));
  return line;
}

bool Output::skips_silently() const {
  return plan_.output.quiet || (plan_.conflict_status == 0 && plan_.output.verbosity == 0);
}

std::string Output::busy_line(const Waiting& last) const {
  if (skips_silently()) return {};
  return held_line(last) +
         (plan_.wait > Duration{} ? "; waited " + format_duration(*plan_.wait) : "; not waiting");
}

std::string Output::crowded_line(const Waiting& last) const {
  if (skips_silently()) return {};
  return fmt::format("{}; {} wait already (--max-waiters {})", held_line(last), last.ahead,
                     *plan_.max_waiters);
}

std::string Output::started_line(const RunStarts& starts) const {
  if (skips_silently()) return {};
  return fmt::format("{} was started {} ago; not again (--once-per {})", key_in_the_way(starts.key),
                     format_duration(Duration{starts.now - starts.last->at}),
                     plan_.once_per->described());
}

std::string Output::started_ahead_line(const RunStarts& starts, Record record) const {
  if (skips_silently()) return {};
  return fmt::format(
      "{} was started in the future by the store's clock ({} ahead){}; not again (--once-per {})",
      key_in_the_way(starts.key), format_duration(OncePer::ahead(starts)),
      record == Record::corrected ? ", so it counts as a start at this moment" : "",
      plan_.once_per->described());
}

}  // namespace dlock::run
