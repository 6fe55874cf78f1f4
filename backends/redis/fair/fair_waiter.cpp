// SPDX-License-Identifier: Apache-2.0
#include "redis/fair/fair_waiter.hpp"
#include <fmt/format.h>
#include <utility>
#include "core/key_view.hpp"
#include "core/number.hpp"
#include "redis/fair/fair_backend.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/wire/socket.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::redis {
namespace {

constexpr unsigned most_breaks = 2;  // in one poll; after more the caller must know
constexpr auto past_the_end = std::chrono::milliseconds{2};
// for a waiter that cannot be woken: its slot is being moved
constexpr auto rest_time = std::chrono::milliseconds{500};

std::optional<HolderView> holder_in(const Reply& reply, std::size_t at, Micros now) {
  const auto h = parse_holder(reply.text_at(at));
  return h ? std::optional{view_of(*h, now)} : std::nullopt;
}

// A third of the patience, randomised, as others may have come together with this one.
Duration refresh_of(Duration patience, const Owner& owner) noexcept {
  return patience / 3 * (768 + owner.bytes[0]) / 1024;
}

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
    Step step = state_ == State::idle        ? start()
                : state_ == State::asked     ? hear_answer(end)
                : state_ == State::listening ? hear_wake(end)
                                             : rest(end);
    if (step && !*step) continue;
    if (state_ == State::idle && session_) client_.give_back(std::move(session_));
    if (!step) return fail(std::move(step.error()));
    return std::move(**step);
  }
}

// In the grace of the server it is said how long that lasts.
Progress FairWaiter::waiting() {
  Waiting now = last_;
  const auto left = std::chrono::ceil<Duration>(grants_from_ - Clock::now());
  client_.grants_nothing = left > Duration{};
  if (client_.grants_nothing) now.why = grace_note(client_.options().restart_grace, left);
  return now;
}

FairWaiter::Step FairWaiter::start() {
  const Wait wait{Clock::now() + client_.options().connect_timeout, client_.options().interrupt_fd};
  if (session_) client_.give_back(std::move(session_));  // it may not be the right server any more
  if (owed_ && !backend_.give_back(*owed_))
    return fail(
        Errc::unavailable,
        fmt::format("acquire at {}: a grant that was given back is still there", backend_.where()));
  owed_.reset();
  auto taken = client_.take(keys_.slot(), wait);
  if (!taken) {
    if (request_.wait && wait.interrupted()) return waiting();
    return fail(std::move(taken.error()));
  }
  session_ = std::move(*taken);
  const Duration grace = client_.options().restart_grace;
  const Duration left = session_->facts.grace_left(grace);
  grants_from_ = later(Clock::now(), left);
  client_.grants_nothing = left > Duration{};
  if (client_.grants_nothing && !request_.wait)
    return fail(Errc::unavailable,
                fmt::format("{}: {}", session_->at.text(), grace_note(grace, left)));
  if (auto ok = ask({}); !ok) return broken(std::move(ok.error()));
  return std::optional<Progress>{};
}

Command FairWaiter::command() const {
  return {"acquire",
          &scripts::acquire,
          keys_.all(),
          {request_.owner.hex(), std::string{static_cast<char>(request_.mode)},
           fmt::format_int(request_.limit).str(), micros(request_.ttl), micros(request_.lock_delay),
           micros(patience_), micros(claim), request_.identity.encode(), keys_.record_suffix(),
           request_.wait ? "1" : "0", queued_ ? "1" : "0", Clock::now() < grants_from_ ? "1" : "0"},
          true,
          1};
}

Result<void> FairWaiter::ask(Manner manner) {
  state_ = State::asked;
  manner_ = manner;
  skip_ = manner.asking;
  sent_ = Clock::now();
  answer_by_ = sent_ + client_.options().op_timeout;
  command().put(*session_->connection, manner);
  ++client_.requests;
  return session_->connection->flush({answer_by_});
}

FairWaiter::Step FairWaiter::hear_answer(Deadline end) {
  const Wait wait{answer_by_, client_.options().interrupt_fd};
  auto reply = session_->connection->receive(wait);
  if (!reply) return broken(std::move(reply.error()));
  if (*reply && std::exchange(skip_, false)) return std::optional<Progress>{};
  if (*reply) {
    state_ = State::idle;
    session_->used = true;
    return (*reply)->is(Reply::Type::error) ? refused(**reply, State::asked)
                                            : understand(**reply, end);
  }
  if (Clock::now() < answer_by_ && request_.wait) return waiting();  // interrupted
  state_ = State::idle;
  const std::string where = session_->at.text();
  client_.invalidate(std::move(session_));
  return fail(Errc::timed_out, fmt::format("acquire at {}: no answer in time", where));
}

// The connection is gone; whether the request was carried out is unknown, and a repeated one will
// tell.
FairWaiter::Step FairWaiter::broken(Error e) {
  const bool used = session_->used;
  const bool asked = state_ == State::asked;
  const std::string where = session_->at.text();
  client_.invalidate(std::move(session_));
  state_ = State::idle;
  if (used && ++breaks_ <= most_breaks) return std::optional<Progress>{};
  return fail(asked ? Errc::timed_out : e.code, fmt::format("acquire at {}: {}", where, e.message));
}

FairWaiter::Step FairWaiter::refused(const Reply& reply, State during) {
  const ServerError e = classify(reply.text);
  auto way =
      client_.detour(*session_, command(), reply, during == State::asked ? manner_ : Manner{});
  // its list belongs to the other side of a slot that is being moved
  if (way && during == State::listening) {
    look_again_soon();
    return std::optional<Progress>{};
  }
  if (way && way->to) {
    auto there = client_.take_from(*way->to, {answer_by_, client_.options().interrupt_fd});
    client_.give_back(std::move(session_));
    if (!there) return fail(std::move(there.error()));
    session_ = std::move(*there);
    const Duration grace = client_.options().restart_grace;
    const Duration left = session_->facts.grace_left(grace);
    if (left > Duration{} && !request_.wait)
      return fail(Errc::unavailable, grace_note(grace, left));
    grants_from_ = std::max(grants_from_, later(Clock::now(), left));
  }
  if (way) {
    if (auto ok = ask(way->manner); !ok) return broken(std::move(ok.error()));
    return std::optional<Progress>{};
  }
  Error error = as_error("acquire", session_->at.text(), reply.text);
  if (e.remedy == Remedy::elsewhere) {
    client_.invalidate(std::move(session_), reply.text);
    if (++breaks_ <= most_breaks) return std::optional<Progress>{};
  }
  return fail(std::move(error));
}

FairWaiter::Step FairWaiter::understand(const Reply& reply, Deadline end) {
  const std::string_view verdict = reply.text_at(0);
  const auto now = reply.number_at(1);
  if (verdict == "held" && Clock::now() < grants_from_) {  // not more than an answer that was lost
    look_again_soon();
    return std::optional<Progress>{};
  }
  if (verdict == "granted" || verdict == "held") return grant(reply, verdict == "held");
  if (verdict == "busy" && now) return Progress{Busy{holder_in(reply, 3, *now)}};
  if (verdict == "later" && now) {
    std::string why = "its slot is being moved to another node of the cluster";
    if (!request_.wait) return Progress{Busy{holder_in(reply, 3, *now), std::move(why)}};
    last_ = {0, holder_in(reply, 3, *now), std::move(why)};
    look_again_soon();
    return std::optional<Progress>{};
  }
  const auto ahead = reply.number_at(2), free_at = reply.number_at(3);
  if (verdict != "waiting" || !request_.wait || !now || !ahead || !free_at)
    return fail(Errc::protocol, fmt::format("acquire at {}: malformed reply", session_->at.text()));

  queued_ = true;
  last_ = {static_cast<std::size_t>(*ahead), holder_in(reply, 5, *now)};
  if (Clock::now() >= end) return waiting();
  Duration time = refresh_of(patience_, request_.owner);
  // No script runs when time alone opens the key: only the first waiter that may not run polls
  // then.
  if (reply.number_at(4) == 1 && *free_at > 0)
    time = std::min(time, std::max(Duration{*free_at - *now}, Duration{0}) + past_the_end);
  if (Clock::now() < grants_from_)  // all ask then, and the queue has their order
    time = std::min(time, std::chrono::ceil<Duration>(grants_from_ - Clock::now()) + past_the_end);
  if (auto ok = listen(time); !ok) return broken(std::move(ok.error()));
  return std::optional<Progress>{};
}

Result<void> FairWaiter::listen(Duration time) {
  // Fractions of a second since 6.0. 0 would mean for ever.
  const auto ms =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(time).count());
  const bool fractions = session_->facts.version >= 600;
  const auto whole =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
  const std::string timeout =
      fractions ? fmt::format("{}.{:03}", ms / 1000, ms % 1000) : fmt::format_int(whole).str();
  state_ = State::listening;
  sent_ = Clock::now();
  answer_by_ = sent_ + (fractions ? Duration{ms * 1000} : Duration{whole * 1'000'000}) +
               client_.options().op_timeout;
  session_->connection->add({"BLPOP", keys_.wake(request_.owner), timeout});
  ++client_.requests;
  return session_->connection->flush({sent_ + client_.options().op_timeout});
}

void FairWaiter::look_again_soon() {
  client_.give_back(std::move(session_));
  state_ = State::resting;
  rest_until_ = Clock::now() + Duration{rest_time} * (768 + request_.owner.bytes[1]) / 1024;
}

FairWaiter::Step FairWaiter::rest(Deadline end) {
  wait_for(-1, 0, {std::min(end, rest_until_), client_.options().interrupt_fd});
  if (Clock::now() < rest_until_) return waiting();
  state_ = State::idle;
  return Clock::now() < end ? Step{std::optional<Progress>{}} : Step{waiting()};
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
  if ((*reply)->is(Reply::Type::error)) return refused(**reply, State::listening);
  if ((*reply)->is(Reply::Type::array)) ++backend_.wakeups;
  return std::optional<Progress>{};
}

// The lease counts from before the request that was granted. If that was an earlier one, whose
// reply was lost, it counts from a renewal now.
FairWaiter::Step FairWaiter::grant(const Reply& reply, bool repeated) {
  const auto token = parse_number<std::uint64_t>(reply.text_at(2));
  const auto slot = reply.number_at(3);
  if (!token || *token == 0 || !slot || *slot < 0)
    return fail(Errc::protocol, fmt::format("acquire at {}: malformed reply", session_->at.text()));
  const Lease lease{request_.key,
                    request_.owner,
                    request_.mode,
                    *token,
                    static_cast<unsigned>(*slot),
                    lease_end(sent_, request_.ttl)};
  const unsigned wanted = client_.options().replicas;
  if (repeated) {
    client_.give_back(std::move(session_));
    const auto renewal = backend_.renew(lease, request_.ttl);  // waits for the replicas as well
    if (!renewal) return fail(renewal.error());
    if (const auto* kept = std::get_if<Kept>(&*renewal)) return Progress{Granted{kept->lease}};
    return std::optional<Progress>{};  // it ended just now: ask again
  }
  if (wanted > 0) {
    const auto have = client_.copies(*session_, wanted);
    if (!have) {
      client_.invalidate(std::move(session_));
      return fail(have.error());
    }
    if (*have < wanted) {
      client_.give_back(std::move(session_));
      // That release may arrive late, so nothing is acquired under this owner any more.
      if (!backend_.give_back(lease)) owed_ = lease;
      request_.owner = Owner::random();
      queued_ = false;
      return fail(
          Errc::unavailable,
          fmt::format(
              "acquire at {}: only {} of {} replicas confirmed the grant; it was given back",
              backend_.where(), *have, wanted));
    }
  }
  client_.gave();
  return Progress{Granted{lease}};
}

Result<void> FairWaiter::cancel() {
  if (!client_.ever_connected()) return {};
  if (state_ == State::asked) {  // its reply first: it was carried out before the cancel
    const Wait wait{std::min(answer_by_, Clock::now() + client_.options().op_timeout / 2)};
    auto reply = session_->connection->receive(wait);
    // the first was ASKING's
    if (reply && *reply && std::exchange(skip_, false)) reply = session_->connection->receive(wait);
    if (reply && *reply) client_.give_back(std::move(session_));
  }
  if (session_ && state_ != State::idle) client_.invalidate(std::move(session_));
  state_ = State::idle;
  queued_ = false;
  if (owed_ && backend_.give_back(*owed_)) owed_.reset();
  TRY_VOID(client_.call(
      {"leave the queue",
       &scripts::cancel,
       keys_.all(),
       {request_.owner.hex(), std::string{static_cast<char>(request_.mode)},
        fmt::format_int(request_.limit).str(), request_.identity.encode(), micros(claim)},
       false,
       1}));
  if (owed_)
    return fail(Errc::timed_out,
                fmt::format("leave the queue at {}: a grant was not given back", backend_.where()));
  return {};
}

}  // namespace dlock::redis
