// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <utility>
#include "core/number.hpp"
#include "redis/fair/fair_backend.hpp"
#include "redis_scripts/fair_scripts.hpp"

namespace dlock::redis {
namespace {

constexpr unsigned most_breaks = 2;  // lost connections in one poll; after more, the poll fails
constexpr auto past_the_end = std::chrono::milliseconds{2};
// The pause of a waiter that cannot be woken because its slot is being moved.
constexpr auto rest_time = std::chrono::milliseconds{500};
constexpr auto go_on = std::nullopt;  // the result of a step that has not ended the poll

// Returns a third of the patience, randomised, because several waiters may have come at the same
// time.
Duration refresh_of(Duration patience, const Owner& owner) noexcept {
  return patience / 3 * (768 + owner.bytes[0]) / 1024;
}

// A place in the queue. The waiter sends the script acquire. If it must wait, it sleeps in BLPOP on
// its own list, over a connection that is used for nothing else meanwhile. It sends acquire again
// when it is woken, when it must show that it lives, or when the key may have become free by time
// alone. If a reply is outstanding at the end of a slice, the next poll reads it.
//
// Interleavings that remain:
// 1. An acquire gets no reply, and its connection is cut. The waiter repeats the acquire over a new
//    connection, or cancels. If the network delivers the first acquire after that cancel, the grant
//    has no owner, and blocks the key until its ttl is over. (The first connection is reset, so the
//    kernel does not send the request again; only data in flight can arrive.)
// 2. A script wakes this waiter, its BLPOP takes the element, and the connection breaks before the
//    reply. The waiter sends acquire again over a new connection. It needs no wake-up for that:
//    acquire finds room, and grants.
class FairWaiter final : public Waiter {
 public:
  FairWaiter(FairBackend& backend, const Request& request)
      : backend_(backend),
        client_(backend.client()),
        request_(request),
        keys_(client_.options().prefix, request.key),
        patience_(patience_of(request.ttl)) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  using Step = Result<std::optional<Progress>>;  // nullopt: go on

  Step start();
  Step receive_answer(Deadline end);
  Step receive_wake(Deadline end);
  Step on_reply(const TimedReply&, Deadline end);
  Step grant(const TimedReply&, bool repeated);
  Step rest(Deadline end);
  void listen(Duration time);
  Command command() const;
  void retry_soon();
  Progress waiting();
  tl::unexpected<Error> give_up(Errc, std::string_view why);

  FairBackend& backend_;
  Client& client_;
  Request request_;  // its owner has released nothing yet, so the request may be repeated
  const FairKeys keys_;
  const Duration patience_;
  // At most one of these three is set: acquire is in flight, BLPOP is in flight, or acquire must
  // wait for a time.
  std::optional<Exchange> acquire_;
  std::unique_ptr<Connection> listening_;
  std::optional<Deadline> rest_until_;
  bool queued_ = false;        // we have a place in the queue
  std::optional<Lease> owed_;  // a grant whose release got no reply
  Deadline grants_from_{};     // the end of the server's grace period; until then it only queues us
  unsigned breaks_ = 0;        // connections lost in this poll
  Waiting last_;
};

Result<Progress> FairWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  breaks_ = 0;
  last_.sent_at = {};
  for (;;) {
    TRY(step, acquire_      ? receive_answer(end)
              : listening_  ? receive_wake(end)
              : rest_until_ ? rest(end)
                            : start());
    if (step) return std::move(*step);
  }
}

// During the server's grace period, the result says how long the period still lasts.
Progress FairWaiter::waiting() {
  Waiting now = last_;
  const auto left = std::chrono::ceil<Duration>(grants_from_ - Clock::now());
  client_.in_grace_period = left > Duration{};
  if (client_.in_grace_period) now.why = grace_note(client_.options().restart_grace, left);
  return now;
}

// Returns an error that names the server to which acquire was sent.
tl::unexpected<Error> FairWaiter::give_up(Errc code, std::string_view why) {
  Error e{code, fmt::format("acquire at {}: {}", acquire_->line().at().text(), why)};
  acquire_.reset();
  return fail(std::move(e));
}

FairWaiter::Step FairWaiter::start() {
  const Wait wait{Clock::now() + client_.options().connect_timeout, client_.options().interrupt_fd};
  TRY_VOID(backend_.settle(owed_));
  acquire_.emplace(client_, command());
  if (auto ok = acquire_->begin(wait); !ok) {
    acquire_.reset();
    if (request_.wait && wait.interrupted()) return waiting();
    return fail(std::move(ok.error()));
  }
  grants_from_ = acquire_->grants_from();
  client_.in_grace_period = Clock::now() < grants_from_;
  return go_on;
}

Command FairWaiter::command() const {
  Command made{.what = "acquire",
               .script = &scripts::acquire,
               .keys = keys_.all(),
               .args = {request_.owner.hex(), std::string{static_cast<char>(request_.mode)},
                        fmt::format_int(request_.limit).str(), micros(request_.ttl),
                        micros(request_.lock_delay), micros(patience_), micros(claim),
                        request_.identity.encode(), keys_.record_suffix(),
                        request_.wait ? "1" : "0", queued_ ? "1" : "0"},
               .in_grace = request_.wait ? Command::InGrace::reported : Command::InGrace::withheld,
               .enough = 1};
  if (!request_.wait) made.args.emplace_back("0");  // the script must not queue the owner
  return made;
}

FairWaiter::Step FairWaiter::receive_answer(Deadline end) {
  auto answer = acquire_->await({no_deadline, client_.options().interrupt_fd});
  grants_from_ = acquire_->grants_from();
  const bool interrupted = answer && !*answer;
  if (interrupted && request_.wait) return waiting();
  if (interrupted) return give_up(Errc::timed_out, "no answer in time");
  if (answer && !acquire_->withheld()) return on_reply(**answer, end);
  bool again = false;
  Error e{Errc::unavailable, ""};
  if (answer) {
    const std::string note = grace_note(client_.options().restart_grace, (*answer)->grace_left);
    e.message = fmt::format("{}: {}", acquire_->line().at().text(), note);
  } else {
    e = std::move(answer.error());
    again = acquire_->again() >= Exchange::Again::elsewhere && e.code != Errc::timed_out;
    // It is unknown whether acquire was carried out; a repetition will show that.
    if (acquire_->sent()) e.code = Errc::timed_out;
  }
  acquire_.reset();
  if (again && ++breaks_ <= most_breaks) return go_on;
  return fail(std::move(e));
}

FairWaiter::Step FairWaiter::on_reply(const TimedReply& answer, Deadline end) {
  const Reply& reply = answer.reply;
  const std::string_view verdict = reply.text_at(0);
  const auto now = reply.number_at(1);
  if (verdict == "held" && Clock::now() < grants_from_) {  // only possible after a lost reply
    retry_soon();
    return go_on;
  }
  if (verdict == "granted" || verdict == "held") return grant(answer, verdict == "held");
  const auto ahead = reply.number_at(2), free_at = reply.number_at(3);
  const bool queued = verdict == "waiting" && request_.wait && ahead && free_at;
  if (!now || (!queued && verdict != "busy" && verdict != "later"))
    return give_up(Errc::protocol, "malformed reply");
  std::optional<HolderView> holder;
  if (const auto h = parse_holder(reply.text_at(queued ? 5 : 3))) holder = view_of(*h, *now);
  std::string why;
  if (verdict == "later") why = "its slot is being moved to another node of the cluster";
  if (verdict == "busy" || !request_.wait) {
    acquire_.reset();
    return Progress{Busy{std::move(holder), std::move(why), answer.sent}};
  }
  if (!queued) {
    last_ = {0, std::move(holder), std::move(why), answer.sent};
    retry_soon();
    return go_on;
  }
  queued_ = true;
  last_ = {static_cast<std::size_t>(*ahead), std::move(holder), {}, answer.sent};
  if (Clock::now() >= end) {
    acquire_.reset();
    return waiting();
  }
  Duration time = refresh_of(std::min(patience_, request_.ttl), request_.owner);
  // When the key becomes free by time alone, no script runs that could wake a waiter. So the first
  // waiter that may not run yet polls at that time.
  if (reply.number_at(4) == 1 && *free_at > 0)
    time = std::min(time, std::max(Duration{*free_at - *now}, Duration{0}) + past_the_end);
  if (Clock::now() < grants_from_)  // all waiters ask at that time; the queue keeps their order
    time = std::min(time, std::chrono::ceil<Duration>(grants_from_ - Clock::now()) + past_the_end);
  listen(time);
  return go_on;
}

void FairWaiter::listen(Duration time) {
  listening_ = acquire_->release_line();
  acquire_.reset();
  // Redis 6.0 and newer accept fractions of a second. 0 would mean for ever.
  const auto ms =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(time).count());
  const bool fractions = listening_->facts().version >= 600;
  const auto whole =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
  const std::string timeout =
      fractions ? fmt::format("{}.{:03}", ms / 1000, ms % 1000) : fmt::format_int(whole).str();
  listening_->send({"BLPOP", keys_.wake(request_.owner), timeout},
                   Clock::now() + Duration{fractions ? ms * 1000 : whole * 1'000'000} +
                       client_.options().op_timeout);
}

void FairWaiter::retry_soon() {
  acquire_.reset();
  rest_until_ = Clock::now() + Duration{rest_time} * (768 + request_.owner.bytes[1]) / 1024;
}

FairWaiter::Step FairWaiter::rest(Deadline end) {
  wait_for(-1, 0, {std::min(end, *rest_until_), client_.options().interrupt_fd});
  if (Clock::now() < *rest_until_) return waiting();
  rest_until_.reset();
  return Clock::now() < end ? Step{go_on} : Step{waiting()};
}

FairWaiter::Step FairWaiter::receive_wake(Deadline end) {
  const auto reply = listening_->await({end, client_.options().interrupt_fd});
  if (!reply && !listening_->closed()) return waiting();
  auto line = std::exchange(listening_, nullptr);
  const std::string where = line->at().text();
  if (!reply) {
    const Error e = line->why();
    client_.invalidate(std::move(line));
    if (++breaks_ <= most_breaks) return go_on;
    return fail(e.code == Errc::timed_out ? Errc::unavailable : e.code, "acquire at {}: {}", where,
                e.message);
  }
  if (!reply->is(Reply::Type::error)) {
    if (reply->is(Reply::Type::array)) ++backend_.wakeups;
    client_.give_back(std::move(line));
    return go_on;
  }
  const bool elsewhere = classify(reply->text).remedy == Remedy::elsewhere;
  // The slot is being moved, and the other server has the list.
  const bool moving = detour(client_.options(), *line, command(), *reply, {}).has_value();
  if (elsewhere && !moving) client_.invalidate(std::move(line), reply->text);
  else client_.give_back(std::move(line));
  if (moving) retry_soon();
  if (moving || (elsewhere && ++breaks_ <= most_breaks)) return go_on;
  return fail(as_error("acquire", where, reply->text));
}

// The lease counts from the time before the granted request was sent. If that was an earlier
// request whose reply was lost, dlock renews now, and the lease counts from the renewal.
FairWaiter::Step FairWaiter::grant(const TimedReply& answer, bool repeated) {
  const auto token = parse_number<std::uint64_t>(answer.reply.text_at(2));
  const auto slot = answer.reply.number_at(3);
  if (!token || *token == 0 || !slot || *slot < 0)
    return give_up(Errc::protocol, "malformed reply");
  const Lease lease{.key = request_.key,
                    .owner = request_.owner,
                    .mode = request_.mode,
                    .token = *token,
                    .slot = static_cast<unsigned>(*slot),
                    .deadline = lease_end(answer.sent, request_.ttl)};
  if (repeated) {
    acquire_.reset();
    TRY(renewal, backend_.renew(lease, request_.ttl));  // this also waits for the replicas
    if (const auto* kept = std::get_if<Kept>(&renewal)) return Progress{Granted{kept->lease}};
    return go_on;  // the lease has just ended, so ask again
  }
  if (const unsigned wanted = client_.options().replicas; wanted > 0) {
    const auto have = acquire_->copies();
    acquire_.reset();
    if (!have) return fail(have.error());
    if (*have < wanted) {
      queued_ = false;
      return fail(backend_.undo(lease, *have, request_, owed_));
    }
  }
  acquire_.reset();
  backend_.has_granted = true;
  return Progress{Granted{lease}};
}

Result<void> FairWaiter::cancel() {
  if (!client_.ever_connected()) return {};
  // Read the reply to acquire first, so that acquire is carried out before the cancel.
  if (acquire_) acquire_->drain({Clock::now() + client_.options().op_timeout / 2});
  acquire_.reset();
  if (listening_) client_.invalidate(std::move(listening_));
  rest_until_.reset();
  queued_ = false;
  const bool settled = backend_.settle(owed_).has_value();
  TRY_VOID(client_.call(
      {.what = "leave the queue",
       .script = &scripts::cancel,
       .keys = keys_.all(),
       .args = {request_.owner.hex(), std::string{static_cast<char>(request_.mode)},
                fmt::format_int(request_.limit).str(), request_.identity.encode(), micros(claim)},
       .enough = 1}));
  if (!settled)
    return fail(Errc::timed_out, "leave the queue at {}: a grant was not given back",
                backend_.where());
  return {};
}

}  // namespace

Result<std::unique_ptr<Waiter>> FairBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits_, request));
  TRY_VOID(within_grace({request.ttl, request.lock_delay}, options().restart_grace));
  return std::make_unique<FairWaiter>(*this, request);
}

}  // namespace dlock::redis
