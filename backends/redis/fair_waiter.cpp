// SPDX-License-Identifier: Apache-2.0
#include "redis/fair_waiter.hpp"
#include <fmt/format.h>
#include "core/lock_view.hpp"
#include "redis/fair_recipe.hpp"
#include "redis/record.hpp"
#include "redis/socket.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::redis {
namespace {

constexpr unsigned most_breaks = 2;  // in one poll; more is for the caller to know
constexpr auto past_the_end = std::chrono::milliseconds{2};

std::optional<HolderView> holder_in(const Reply& reply, std::size_t at, Micros now) {
  const auto h = parse_holder(reply.text_at(at + 1));
  if (!h) return std::nullopt;
  HolderView v = view_of(*h, now);
  v.id = reply.text_at(at);
  return v;
}

// A third of the patience, not at the same moment as everybody else who came together with this one.
Duration refresh_of(Duration patience, const Owner& owner) noexcept { return patience / 3 * (768 + owner.bytes[0]) / 1024; }

}  // namespace

FairWaiter::FairWaiter(FairBackend& backend, Client& client, const Request& request)
    : backend_(backend),
      client_(client),
      request_(request),
      keys_(client.options().prefix, request.key),
      patience_(patience_of(request.ttl)) {}

Result<Progress> FairWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  breaks_ = 0;
  for (;;) {
    Step step = state_ == State::idle ? start(end) : state_ == State::asked ? hear_answer(end) : hear_wake(end);
    if (step && !*step) continue;
    if (state_ == State::idle && session_) client_.give_back(std::move(session_));
    if (!step) return fail(std::move(step.error()));
    return std::move(**step);
  }
}

Progress FairWaiter::waiting() const { return last_; }

FairWaiter::Step FairWaiter::start(Deadline end) {
  const Wait wait{Clock::now() + client_.options().connect_timeout, client_.options().interrupt_fd};
  if (session_) client_.give_back(std::move(session_));  // it may not be the right server any more
  auto taken = client_.take(keys_.slot(), wait);
  if (!taken) {
    if (request_.wait && wait.interrupted()) return waiting();
    return fail(std::move(taken.error()));
  }
  session_ = std::move(*taken);
  const Duration grace = client_.options().restart_grace;
  if (const Duration left = session_->facts.grace_left(grace); left > Duration{}) {
    std::string why = grace_note(grace, left);
    if (!request_.wait) return Progress{Busy{std::nullopt, std::move(why)}};
    wait_for(-1, 0, {std::min(end, later(Clock::now(), left)), wait.interrupt});
    if (session_->facts.grace_left(grace) > Duration{}) return Progress{Waiting{0, std::nullopt, std::move(why)}};
  }
  if (auto ok = ask(false); !ok) return broken(std::move(ok.error()));
  return std::optional<Progress>{};
}

Result<void> FairWaiter::ask(bool by_text) {
  auto keys = keys_.all();
  keys.push_back(keys_.wake(request_.owner));
  const Command acquire{
      "acquire",
      &scripts::acquire,
      std::move(keys),
      {request_.owner.hex(), std::string{static_cast<char>(request_.mode)}, fmt::format_int(request_.limit).str(),
       micros(request_.ttl), micros(request_.lock_delay), micros(patience_), micros(claim), request_.identity.encode(),
       keys_.record_suffix(), request_.wait ? "1" : "0"}};
  state_ = State::asked;
  by_text_ = by_text;
  sent_ = Clock::now();
  answer_by_ = sent_ + client_.options().op_timeout;
  acquire.put(*session_->connection, by_text);
  ++client_.requests;
  return session_->connection->flush({answer_by_});
}

FairWaiter::Step FairWaiter::hear_answer(Deadline end) {
  const Wait wait{answer_by_, client_.options().interrupt_fd};
  auto reply = session_->connection->receive(wait);
  if (!reply) return broken(std::move(reply.error()));
  if (*reply) {
    state_ = State::idle;
    session_->used = true;
    return (*reply)->is(Reply::Type::error) ? refused(**reply) : understand(**reply, end);
  }
  if (Clock::now() < answer_by_ && request_.wait) return waiting();  // interrupted
  state_ = State::idle;
  const std::string where = session_->at.text();
  client_.mistrust(std::move(session_));
  return fail(Errc::timed_out, fmt::format("acquire at {}: no answer in time", where));
}

// The connection is gone; whether the request was carried out is not known, and asking again will tell.
FairWaiter::Step FairWaiter::broken(Error e) {
  const bool used = session_->used;
  const bool asked = state_ == State::asked;
  const std::string where = session_->at.text();
  client_.mistrust(std::move(session_));
  state_ = State::idle;
  if (used && ++breaks_ <= most_breaks) return std::optional<Progress>{};
  return fail(asked ? Errc::timed_out : e.code, fmt::format("acquire at {}: {}", where, e.message));
}

FairWaiter::Step FairWaiter::refused(const Reply& reply) {
  const ServerError e = classify(reply.text);
  if (e.remedy == Remedy::send_text && !by_text_) {
    if (auto ok = ask(true); !ok) return broken(std::move(ok.error()));
    return std::optional<Progress>{};
  }
  Error error = as_error("acquire", session_->at.text(), reply.text);
  if (e.remedy == Remedy::elsewhere) {
    client_.mistrust(std::move(session_), reply.text);
    if (++breaks_ <= most_breaks) return std::optional<Progress>{};
  }
  return fail(std::move(error));
}

FairWaiter::Step FairWaiter::understand(const Reply& reply, Deadline end) {
  const std::string_view verdict = reply.text_at(0);
  const auto now = reply.number_at(1);
  if (verdict == "granted" || verdict == "held") return grant(reply, verdict == "held");
  if (verdict == "busy" && now) return Progress{Busy{holder_in(reply, 3, *now)}};
  const auto ahead = reply.number_at(2), free_at = reply.number_at(3);
  if (verdict != "waiting" || !request_.wait || !now || !ahead || !free_at)
    return fail(Errc::protocol, fmt::format("acquire at {}: the answer makes no sense", session_->at.text()));

  last_ = {static_cast<std::size_t>(*ahead), holder_in(reply, 5, *now)};
  if (Clock::now() >= end) return waiting();
  Duration time = refresh_of(patience_, request_.owner);
  // Nobody is woken when time alone opens the key: only the first who may not run looks then.
  if (reply.number_at(4) == 1 && *free_at > 0)
    time = std::min(time, std::max(Duration{*free_at - *now}, Duration{0}) + past_the_end);
  if (auto ok = listen(time); !ok) return broken(std::move(ok.error()));
  return std::optional<Progress>{};
}

Result<void> FairWaiter::listen(Duration time) {
  // Fractions of a second since 6.0. 0 would mean for ever.
  const auto ms = std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(time).count());
  const bool fractions = session_->facts.version >= 600;
  const auto whole = std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
  const std::string timeout = fractions ? fmt::format("{}.{:03}", ms / 1000, ms % 1000) : fmt::format_int(whole).str();
  state_ = State::listening;
  sent_ = Clock::now();
  answer_by_ = sent_ + (fractions ? Duration{ms * 1000} : Duration{whole * 1'000'000}) + client_.options().op_timeout;
  session_->connection->add({"BLPOP", keys_.wake(request_.owner), timeout});
  ++client_.requests;
  return session_->connection->flush({sent_ + client_.options().op_timeout});
}

FairWaiter::Step FairWaiter::hear_wake(Deadline end) {
  const Wait wait{std::min(end, answer_by_), client_.options().interrupt_fd};
  auto reply = session_->connection->receive(wait);
  if (!reply) return broken(std::move(reply.error()));
  if (!*reply) {
    if (Clock::now() < answer_by_) return waiting();
    return broken({Errc::unavailable, "no answer in time"});
  }
  state_ = State::idle;
  if ((*reply)->is(Reply::Type::error)) return refused(**reply);
  if ((*reply)->is(Reply::Type::array)) ++backend_.wakeups;
  return std::optional<Progress>{};
}

// The lease counts from before the request that was granted. Was it an earlier one, whose answer got lost, then from a renewal now.
FairWaiter::Step FairWaiter::grant(const Reply& reply, bool repeated) {
  const auto token = parse_unsigned(reply.text_at(2));
  const auto slot = reply.number_at(3);
  if (!token || *token == 0 || !slot || *slot < 0)
    return fail(Errc::protocol, fmt::format("acquire at {}: the answer makes no sense", session_->at.text()));
  Granted granted{
      {request_.key, request_.owner, request_.mode, *token, static_cast<unsigned>(*slot), lease_end(sent_, request_.ttl)}};
  const unsigned wanted = client_.options().replicas;
  if (repeated) {
    client_.give_back(std::move(session_));
    const auto renewal = backend_.renew(granted.lease, request_.ttl);  // waits for the replicas as well
    if (!renewal) return fail(renewal.error());
    if (const auto* kept = std::get_if<Kept>(&*renewal)) return Progress{Granted{kept->lease}};
    return std::optional<Progress>{};  // it ended just now: ask again
  }
  if (wanted > 0) {
    const auto have = client_.copies(*session_, wanted);
    if (!have) {
      client_.mistrust(std::move(session_));
      return fail(have.error());
    }
    if (*have < wanted) {
      client_.give_back(std::move(session_));
      (void)backend_.release(granted.lease);  // unanswered: it ends by its ttl
      return fail(Errc::unavailable, fmt::format("acquire at {}: only {} of {} replicas confirmed the grant; it was given back",
                                                 backend_.where(), *have, wanted));
    }
  }
  return Progress{std::move(granted)};
}

Result<void> FairWaiter::cancel() {
  if (state_ == State::asked) {  // its answer first: what it did comes before what cancel does
    const auto reply = session_->connection->receive({std::min(answer_by_, Clock::now() + client_.options().op_timeout / 2)});
    if (reply && *reply) client_.give_back(std::move(session_));
  }
  if (session_ && state_ != State::idle) client_.mistrust(std::move(session_));
  state_ = State::idle;
  auto keys = keys_.all();
  keys.push_back(keys_.wake(request_.owner));
  const auto answer = client_.call({"leave the queue", &scripts::cancel, std::move(keys), {request_.owner.hex(), micros(claim)}});
  if (!answer) return fail(answer.error());
  return {};
}

}  // namespace dlock::redis
