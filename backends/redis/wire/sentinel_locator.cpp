// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/sentinel_locator.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <utility>
#include "redis/fair/fair_record.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redis {

// Asks for the master. Sentinels often have no password of their own, so it is given to those that
// ask for one.
struct SentinelLocator::Sentinel final : Dialogue {
  Sentinel(const Endpoint& at, const Options& o, const TlsContext* tls, std::uint64_t& count)
      : options(o), requests(count), talk(at, tls, o.op_timeout) {}

  void begin(Connection& c) override {
    master.reset();
    login = Login::not_asked_for;
    put(c);
  }
  Result<bool> hear(Reply, Connection&) override;
  void put(Connection& c) {
    c.add({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options.master});
    ++requests;
  }

  const Options& options;
  std::uint64_t& requests;
  Talk talk;
  enum class Login { not_asked_for, under_way, done } login = Login::not_asked_for;
  std::optional<Endpoint> master;  // its answer
};

Result<bool> SentinelLocator::Sentinel::hear(Reply reply, Connection& c) {
  const std::string at = talk.at().text();
  if (std::exchange(login, login == Login::under_way ? Login::done : login) == Login::under_way) {
    if (reply.is(Reply::Type::error))
      return fail(Errc::denied, fmt::format("sentinel {} refuses user or password", at));
    return false;
  }
  if (reply.text.starts_with("NOAUTH") && !options.password.empty() &&
      login == Login::not_asked_for) {
    if (options.user.empty()) c.add({"AUTH", options.password});
    else c.add({"AUTH", options.user, options.password});
    ++requests;
    login = Login::under_way;
    put(c);
    return false;
  }
  if (reply.is(Reply::Type::error)) return fail(as_error("ask for the master", at, reply.text));
  if (reply.is(Reply::Type::nil))
    return fail(Errc::usage,
                fmt::format("sentinel {} knows no master named {}", at, options.master));
  const auto port = reply.number_at(1);
  if (reply.text_at(0).empty() || !port || *port < 1 || *port > 65535)
    return fail(Errc::protocol, fmt::format("sentinel {}: malformed reply", at));
  master = Endpoint{std::string{reply.text_at(0)}, static_cast<std::uint16_t>(*port), {}};
  return true;
}

SentinelLocator::SentinelLocator(const Options& options, const TlsContext* tls,
                                 std::uint64_t& requests) {
  for (const Endpoint& at : options.servers)
    sentinels_.push_back(std::make_unique<Sentinel>(at, options, tls, requests));
}

SentinelLocator::~SentinelLocator() = default;

void SentinelLocator::ask(std::size_t enough, Wait wait) {
  std::vector<Talk*> talks;
  for (auto& s : sentinels_) talks.push_back(&s->talk);
  const auto begin = [&] {
    for (auto& s : sentinels_) {
      if (s->talk.begun()) s->talk.advance();  // what arrived after the last decision
      if (!s->talk.over()) s->talk.end();
      s->master.reset();
      s->talk.begin(*s, wait.until);
    }
    return false;
  };
  converse(talks, wait, Duration{}, begin, [&] {
    return std::any_of(sentinels_.begin(), sentinels_.end(),
                       [&](const auto& s) { return s->master && votes(*s->master) >= enough; });
  });
}

std::size_t SentinelLocator::votes(const Endpoint& master) const {
  return static_cast<std::size_t>(std::count_if(
      sentinels_.begin(), sentinels_.end(), [&](const auto& s) { return s->master == master; }));
}

Result<Endpoint> SentinelLocator::find(std::string_view, Wait wait) {
  const Deadline now = Clock::now();
  if (asked_ && now < later(*asked_, fresh)) return master_;
  asked_.reset();
  const std::size_t enough = sentinels_.size() / 2 + 1;
  ask(enough, wait);
  std::map<std::string, std::size_t> named;
  std::optional<Error> denied, last;
  for (const auto& s : sentinels_) {
    if (s->master && votes(*s->master) >= enough) {
      asked_ = now;
      return master_ = *s->master;
    }
    if (s->master) ++named[s->master->text()];
    else if (!s->talk.over())
      last = {Errc::unavailable, fmt::format("{}: no answer in time", s->talk.at().text())};
    else last = s->talk.outcome().error();
    if (!s->master && !retryable(last->code)) denied = last;
  }
  if (denied) return fail(std::move(*denied));
  std::string said;
  for (const auto& [address, n] : named)
    said +=
        fmt::format("{}{} of {} name {}", said.empty() ? "" : ", ", n, sentinels_.size(), address);
  return fail(Errc::unavailable, fmt::format("no majority of the sentinels for a master: {}",
                                             named.empty() && last ? last->message : said));
}

Result<std::vector<Endpoint>> SentinelLocator::everyone(Wait wait) {
  TRY(master, find({}, wait));
  return std::vector{std::move(master)};
}

void SentinelLocator::examine(Wait wait, std::vector<Finding>& out) {
  std::size_t agree = 0;
  std::string others;
  ask(sentinels_.size() + 1, wait);  // all of them
  for (const auto& s : sentinels_) {
    if (s->master == master_) ++agree;
    else if (s->master)
      others += fmt::format("; {} names {}", s->talk.at().text(), s->master->text());
    else
      others += fmt::format("; {}", s->talk.over() ? s->talk.outcome().error().message
                                                   : s->talk.at().text() + ": no answer in time");
  }
  const bool few = sentinels_.size() < 3;
  out.push_back(
      {agree == sentinels_.size() && !few ? Finding::Level::good : Finding::Level::warning,
       "sentinels",
       fmt::format("{} of {} name {}{}", agree, sentinels_.size(), master_.text(), others),
       few                         ? "name at least three: a majority of fewer fails with the first"
       : agree < sentinels_.size() ? "nothing is granted when no majority is left"
                                   : ""});
}

}  // namespace dlock::redis
