// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <utility>
#include "redis/wire/locator.hpp"
#include "redis/wire/question.hpp"
#include "redis/wire/server_error.hpp"

namespace dlock::redis {

// Asks for the master. Sentinels often have no password of their own, so it is given to those that
// ask for one.
class SentinelLocator::Sentinel final : public Question {
 public:
  Sentinel(Line::Shared shared, const Endpoint& at)
      : Question(shared, at, Line::Greeting::none), options_(shared.options) {}

  std::optional<Endpoint> master;  // its answer

 private:
  Result<void> ask() override {
    master.reset();
    login_ = Login::not_asked_for;
    put();
    return {};
  }
  Result<bool> understand(Reply) override;
  void put() { line_.send({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.master}, no_deadline); }

  const Options& options_;
  enum class Login { not_asked_for, under_way, done } login_ = Login::not_asked_for;
};

Result<bool> SentinelLocator::Sentinel::understand(Reply reply) {
  const std::string there = at().text();
  if (login_ == Login::under_way) {
    login_ = Login::done;
    if (reply.is(Reply::Type::error))
      return fail(Errc::denied, fmt::format("sentinel {} refuses user or password", there));
    return false;
  }
  if (reply.text.starts_with("NOAUTH") && !options_.password.empty() &&
      login_ == Login::not_asked_for) {
    if (options_.user.empty()) line_.send({"AUTH", options_.password}, no_deadline);
    else line_.send({"AUTH", options_.user, options_.password}, no_deadline);
    login_ = Login::under_way;
    put();
    return false;
  }
  if (reply.is(Reply::Type::error)) return fail(as_error("ask for the master", there, reply.text));
  if (reply.is(Reply::Type::nil))
    return fail(Errc::usage,
                fmt::format("sentinel {} knows no master named {}", there, options_.master));
  const auto port = reply.number_at(1);
  if (reply.text_at(0).empty() || !port || *port < 1 || *port > 65535)
    return fail(Errc::protocol, fmt::format("sentinel {}: malformed reply", there));
  master = Endpoint{std::string{reply.text_at(0)}, static_cast<std::uint16_t>(*port), {}};
  return true;
}

SentinelLocator::SentinelLocator(Line::Shared shared) {
  for (const Endpoint& at : shared.options.servers)
    sentinels_.push_back(std::make_unique<Sentinel>(shared, at));
}

SentinelLocator::~SentinelLocator() = default;

void SentinelLocator::ask(std::size_t enough, Wait wait) {
  std::vector<Question*> questions;
  for (auto& s : sentinels_) questions.push_back(s.get());
  const auto begin = [&] {
    for (auto& s : sentinels_) {
      s->go_on();  // what arrived after the last decision
      s->end();
      s->master.reset();
      s->begin(wait.until);
    }
    return false;
  };
  ask_all(questions, wait, Duration{}, begin, [&] {
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
    else if (!s->over())
      last = {Errc::unavailable, fmt::format("{}: no answer in time", s->at().text())};
    else last = s->outcome().error();
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
    else if (s->master) others += fmt::format("; {} names {}", s->at().text(), s->master->text());
    else
      others += fmt::format("; {}", s->over() ? s->outcome().error().message
                                              : s->at().text() + ": no answer in time");
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
