// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/client.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock::redis {
namespace {

constexpr std::size_t most_idle = 8;  // how many connections stay open for the next command

}  // namespace

Result<std::unique_ptr<Client>> Client::create(Options options) {
  std::unique_ptr<Client> client{new Client{std::move(options)}};
  Client& c = *client;
  TRY_VOID(c.credentials_.load());
  const auto topology = c.options_.topology;
  if (topology == Options::Topology::sentinel) c.locator_ = by_sentinels(c.shared());
  else if (topology == Options::Topology::cluster) c.locator_ = by_slots(c.shared());
  else c.locator_ = std::make_unique<SingleServer>(c.options_.servers.front());
  return client;
}

Deadline Client::usual_deadline() const noexcept {
  return Clock::now() + options_.op_timeout +
         (ever_connected_ ? Duration{} : options_.connect_timeout);
}

Deadline Client::own_time(Deadline by) const noexcept {
  return ever_connected_ ? std::max(by, later(Clock::now(), options_.op_timeout)) : by;
}

Result<std::unique_ptr<Connection>> Client::connect(const Endpoint& at, Wait wait) {
  auto line = std::make_unique<Connection>(shared(), at);
  line->dial(wait.until, ever_connected_ ? options_.op_timeout : Duration{});
  (void)line->await({no_deadline, wait.interrupt_fd});
  if (line->pending())
    return fail(Errc::unavailable, "cannot connect to {}: interrupted", at.text());
  if (line->closed()) {
    Error e = line->why();
    if (line->mute() && !options_.tls && !ever_connected_ && at.socket.empty())
      e.message += "; does it speak TLS on this port? (rediss://, tls=yes)";
    if (const std::string origin = locator_->origin(at);
        e.code == Errc::unavailable && !origin.empty())
      e.message += fmt::format(" ({})", origin);
    return fail(std::move(e));
  }
  ever_connected_ = true;
  if (const std::string& policy = line->facts().evicts; !policy.empty())
    warn(fmt::format(
        "{} deletes keys when memory runs out (maxmemory-policy {}), also locks: set noeviction",
        at.text(), printable(policy)));
  return line;
}

void Client::warn(std::string text) {
  if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
}

void Client::watch(const Connection& line) noexcept {
  epoll_event e{EPOLLIN | EPOLLRDHUP, {}};
  if (outage_) ::epoll_ctl(outage_.get(), EPOLL_CTL_ADD, line.poll_fd(), &e);
}

Health Client::health() {
  if (!outage_) {
    outage_.reset(::epoll_create1(EPOLL_CLOEXEC));
    for (const auto& line : idle_) watch(*line);
  }
  return {outage_.get(), in_grace_period, warnings_};
}

// Drops idle connections that are broken, so that no request uses them. Afterwards `outage_` is not
// readable.
void Client::drop_broken() {
  pollfd rung{outage_.get(), POLLIN, 0};
  if (!outage_ || ::poll(&rung, 1, 0) <= 0) return;
  const Deadline now = Clock::now();
  std::erase_if(idle_, [&](const auto& line) {
    (void)line->next(now);  // what has arrived may be a TLS record, which is no reply
    if (line->ready()) return false;
    locator_->invalidate(line->at(), {});
    return true;
  });
}

Result<std::unique_ptr<Connection>> Client::line_to(const Endpoint& at, Wait wait) {
  const auto found =
      std::ranges::find_if(idle_, [&](const auto& line) { return line->at() == at; });
  if (found != idle_.end()) {
    auto line = std::move(*found);
    idle_.erase(found);
    if (outage_) ::epoll_ctl(outage_.get(), EPOLL_CTL_DEL, line->poll_fd(), nullptr);
    return line;
  }
  auto line = with_credentials([&] {
    return connect(at,
                   {std::min(own_time(wait.until), later(Clock::now(), options_.connect_timeout)),
                    wait.interrupt_fd});
  });
  if (line && !(*line)->facts().replica) return line;
  locator_->invalidate(at, {});
  if (line) return fail(Errc::unavailable, "{} is a replica; locks live on the master", at.text());
  return line;
}

Result<std::unique_ptr<Connection>> Client::line_for(std::string_view key, Wait wait) {
  drop_broken();
  TRY(at, with_credentials([&] {
        return locator_->find(key, {own_time(wait.until), wait.interrupt_fd});
      }));
  return line_to(at, wait);
}

void Client::give_back(std::unique_ptr<Connection> line) {
  if (idle_.size() >= most_idle) return;
  watch(*line);
  idle_.push_back(std::move(line));
}

void Client::invalidate(std::unique_ptr<Connection> line, std::string_view text) {
  locator_->invalidate(line->at(), text);
  line->close({Errc::unavailable, "given up"});
}

Result<Reply> Client::request(Connection& line, const Command& command) {
  TRY(reply, request_any(line, command, {}, options_.op_timeout));
  if (reply.is(Reply::Type::error))
    return fail(as_error(command.what, line.at().text(), reply.text));
  return reply;
}

Result<Reply> Client::request_any(Connection& line, const Command& command, Manner manner,
                                  Duration patience) {
  line.send(command, manner, later(Clock::now(), patience));
  auto reply = line.await({no_deadline});
  if (!reply)
    return fail(line.why().code, "{} at {}: {}", command.what, line.at().text(),
                line.why().message);
  return std::move(*reply);
}

Result<TimedReply> Client::call(const Command& command) {
  const Deadline by = usual_deadline();
  bool unknown = false;
  // If no server has replied yet, retry until first_answer_by_, which the first call sets. After
  // that time, each call tries once.
  if (!first_answer_by_) first_answer_by_ = later(Clock::now(), options_.connect_timeout);
  const bool too_late = Clock::now() >= *first_answer_by_;
  std::optional<Error> before;
  for (unsigned n = 0;; ++n) {
    const Deadline connect_by =
        ever_connected_ ? by
                        : std::min(by, too_late ? later(Clock::now(), options_.connect_timeout)
                                                : *first_answer_by_);
    Exchange exchange{*this, command};
    auto answer = exchange.run(connect_by);
    if (answer) {
      answer->repeated = unknown;
      return answer;
    }
    unknown |= exchange.sent();
    const bool at_once = exchange.again() == Exchange::Again::at_once;
    const Deadline next = Clock::now() + (at_once ? Duration{} : pause_before_connect(n));
    if (exchange.again() == Exchange::Again::never || next >= by ||
        (!ever_connected_ && next >= *first_answer_by_)) {
      // The last try had no time left, so the error of the try before it says more.
      if (before && retryable(answer.error().code) && !ever_connected_ &&
          Clock::now() >= connect_by)
        answer.error() = std::move(*before);
      if (unknown && retryable(answer.error().code)) answer.error().code = Errc::timed_out;
      return answer;
    }
    before = std::move(answer.error());
    wait_for(-1, 0, {next});
  }
}

// ---- one exchange ------------------------------------------------------------------------------

std::optional<Detour> detour(const Options& options, const Connection& line, const Command& command,
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
  if (e.name == "TRYAGAIN" && command.enough > 0 && !manner.alone) {
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

Result<TimedReply> Exchange::run(Deadline connect_by) {
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
  auto found = client_.line_for(command_.keys.front(), wait);
  if (!found) return fail(failed(std::move(found.error())));
  line_ = std::move(*found);
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
              command_.in_grace == Command::InGrace::reported ? in_grace : "");
}

Result<std::optional<TimedReply>> Exchange::await(Wait wait) {
  while (!withheld()) {
    auto reply = line_->await(wait);
    if (line_->closed()) return fail(closed(line_->why()));
    if (!reply) return std::optional<TimedReply>{};
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
  auto there = client_.line_to(at, connect_);
  client_.give_back(std::move(line_));
  if (!there) return fail(failed(std::move(there.error())));
  line_ = std::move(*there);
  return {};
}

Result<std::int64_t> Exchange::copies() {
  const Options& o = client_.options();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(o.op_timeout / 2).count();
  auto have = client_.request(*line_, {.what = "wait for replicas",
                                       .args = {"WAIT", fmt::format_int(o.replicas).str(),
                                                fmt::format_int(std::max<long>(1, ms)).str()}});
  if (!have) return fail(closed(std::move(have.error())));
  return have->integer;
}

Error Exchange::failed(Error e) {
  again_ = retryable(e.code) ? Again::later : Again::never;
  return e;
}

// A request that was sent may have been carried out.
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

std::string glob_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view{"*?[]\\"}.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace dlock::redis
