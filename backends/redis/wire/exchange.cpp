// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/exchange.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "redis/wire/server_error.hpp"

namespace dlock::redis {

std::optional<Detour> detour(const Options& options, const Line& line, const Command& command,
                             const Reply& reply, Manner manner) {
  if (!reply.is(Reply::Type::error)) return std::nullopt;
  const ServerError e = classify(reply.text);
  if (e.remedy == Remedy::send_text && !manner.by_text) {
    manner.by_text = true;
    return Detour{std::nullopt, manner};
  }
  if (options.topology != Options::Topology::cluster) return std::nullopt;
  if (const auto ask = parse_ask(reply.text, line.at()); ask && !manner.asking) {
    manner.by_text = false;
    manner.asking = true;
    return Detour{ask->to, manner};
  }
  if (e.word == "TRYAGAIN" && command.enough > 0 && !manner.alone) {
    manner.alone = true;
    return Detour{std::nullopt, manner};
  }
  return std::nullopt;
}

Exchange::~Exchange() {
  if (!line_) return;
  if (line_->ready() && line_->idle()) client_.give_back(std::move(line_));
  else client_.invalidate(std::move(line_));
}

Result<Answer> Exchange::run(Deadline connect_by) {
  TRY_VOID(begin({connect_by}));
  TRY(answer, await({no_deadline}));
  if (command_.confirmed && client_.options().replicas > 0 && !withheld()) {
    TRY(have, copies());
    answer->copies = have;
  }
  return std::move(*answer);
}

Result<void> Exchange::begin(Wait wait) {
  connect_ = wait;
  auto taken = client_.take(command_.keys.front(), wait);
  if (!taken) return fail(failed(std::move(taken.error())));
  line_ = std::move(*taken);
  used_ = line_->used();
  put({});
  return {};
}

bool Exchange::withheld() const noexcept {
  return command_.in_grace == Command::InGrace::withheld && answer_.grace_left > Duration{};
}

void Exchange::put(Manner manner) {
  const Duration left = line_->facts().grace_left(client_.options().restart_grace);
  manner_ = manner;
  answer_.grace_left = std::max(answer_.grace_left, left);
  answer_.sent = Clock::now();
  grants_from_ = std::max(grants_from_, later(answer_.sent, left));
  if (withheld()) return;
  skip_ = manner.asking;
  const std::string_view in_grace = answer_.sent < grants_from_ ? "1" : "0";
  line_->send(command_, manner, later(answer_.sent, client_.options().op_timeout),
              command_.in_grace == Command::InGrace::told ? in_grace : "");
}

Result<std::optional<Answer>> Exchange::await(Wait wait) {
  while (!withheld()) {
    auto reply = line_->await(wait);
    if (line_->closed()) return fail(closed(line_->why()));
    if (!reply) return std::optional<Answer>{};
    if (std::exchange(skip_, false)) continue;
    if (!reply->is(Reply::Type::error)) {
      answer_.reply = std::move(*reply);
      break;
    }
    const auto way = detour(client_.options(), *line_, command_, *reply, manner_);
    if (!way) return fail(refused(*reply));
    if (way->to) TRY_VOID(go_to(*way->to));
    put(way->manner);
  }
  return std::optional{answer_};
}

void Exchange::drain(Wait wait) {
  while (line_ && !line_->idle()) {
    if (!line_->await(wait)) return;
  }
}

Result<void> Exchange::go_to(const Endpoint& at) {
  auto there = client_.take_from(at, connect_);
  client_.give_back(std::move(line_));
  if (!there) return fail(failed(std::move(there.error())));
  line_ = std::move(*there);
  return {};
}

Result<std::int64_t> Exchange::copies() {
  const Options& o = client_.options();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(o.op_timeout / 2).count();
  auto have = client_.ask(*line_, {.what = "wait for replicas",
                                   .words = {"WAIT", fmt::format_int(o.replicas).str(),
                                             fmt::format_int(std::max<long>(1, ms)).str()}});
  if (!have) return fail(closed(std::move(have.error())));
  return have->integer;
}

Error Exchange::failed(Error e) {
  again_ = retryable(e.code) ? Again::later : Again::never;
  return e;
}

// What was sent may have been carried out.
Error Exchange::closed(Error e) {
  sent_ = true;
  again_ = used_ ? Again::at_once : Again::later;
  const std::string where = line_->at().text();
  client_.invalidate(std::move(line_));
  if (e.message.find(where) != std::string::npos) return e;
  return {e.code, fmt::format("{} at {}: {}", command_.what, where, e.message)};
}

Error Exchange::refused(const Reply& reply) {
  Error e = as_error(command_.what, line_->at().text(), reply.text);
  const Remedy remedy = classify(reply.text).remedy;
  const bool renewed =
      e.code == Errc::denied && client_.credentials_.newer_than(line_->credentials());
  again_ = remedy == Remedy::elsewhere || renewed ? Again::elsewhere
           : remedy == Remedy::later              ? Again::later
                                                  : Again::never;
  if (again_ == Again::elsewhere) client_.invalidate(std::move(line_), reply.text);
  return e;
}

}  // namespace dlock::redis
