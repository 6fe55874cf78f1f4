// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include "core/text.hpp"
#include "redis/wire/in_flight.hpp"
#include "redis/wire/locator.hpp"

namespace dlock::redis {
namespace {

// Asks one sentinel for the master. Many sentinels have no password. So only a sentinel that asks
// for a password gets one: the password for sentinels or, if there is none, the password for the
// servers.
class Sentinel final : public InFlight {
 public:
  Sentinel(Connection::Shared shared, const Endpoint& at)
      : InFlight(shared, at, Connection::Greeting::none) {}

  std::optional<Endpoint> master;  // the sentinel's answer

 private:
  Result<void> send() override {
    master.reset();
    line_.send({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.master}, no_deadline);
    return {};
  }
  Result<bool> on_reply(std::size_t n, Reply) override;
};

Result<bool> Sentinel::on_reply(std::size_t n, Reply reply) {
  const std::string there = at().text();
  const bool refused = reply.is(Reply::Type::error), own = !options_.sentinels.password.empty();
  const Login& login = own ? options_.sentinels : static_cast<const Login&>(options_);
  // NOPERM: without a login we are the default user, which may lack the right.
  const bool asks =
      refused && (reply.text.starts_with("NOAUTH") || (own && reply.text.starts_with("NOPERM")));
  if (n == 0 && asks && !login.password.empty()) {
    if (login.user.empty()) line_.send({"AUTH", login.password}, no_deadline);
    else line_.send({"AUTH", login.user, login.password}, no_deadline);
    TRY_VOID(send());
    return false;
  }
  if (n == 1 && refused)
    return fail(Errc::denied,
                "sentinel {} refuses user or password ({}?sentinel_user=, "
                "?sentinel_password_file= or DLOCK_SENTINEL_PASSWORD)",
                there, own ? "" : "those of the server; its own: ");
  if (n == 1) return false;
  if (refused && reply.text.find("unknown command") != reply.text.npos)
    return fail(Errc::usage,
                "{} is no sentinel: name the sentinels of its master, or "
                "write redis://{}",
                there, there);
  if (refused) return fail(as_error("ask for the master", there, reply.text));
  if (reply.is(Reply::Type::nil))
    return fail(Errc::usage, "sentinel {} knows no master named {}", there, options_.master);
  const auto port = reply.number_at(1);
  if (reply.text_at(0).empty() || !port || *port < 1 || *port > 65535)
    return fail(Errc::protocol, "sentinel {}: malformed reply", there);
  master = Endpoint{std::string{reply.text_at(0)}, static_cast<std::uint16_t>(*port), {}};
  return true;
}

class SentinelLocator final : public Locator {
 public:
  explicit SentinelLocator(Connection::Shared shared) {
    for (const Endpoint& at : shared.options.servers)
      sentinels_.push_back(std::make_unique<Sentinel>(shared, at));
  }
  Result<Endpoint> find(std::string_view key, Wait) override;
  void invalidate(const Endpoint&, std::string_view) override { named_at_.reset(); }
  Result<std::vector<Endpoint>> everyone(Wait wait) override {
    TRY(master, find({}, wait));
    return std::vector{std::move(master)};
  }
  void examine(Wait, std::vector<Finding>&) override;
  std::string origin(const Endpoint&) const override {
    return "the sentinels named this address; a server behind NAT or in a container needs "
           "replica-announce-ip";
  }

 private:
  // Asks all sentinels at once, until `enough` agree or no answer is outstanding.
  void query(std::size_t enough, Wait wait) {
    std::vector<InFlight*> questions;
    for (auto& s : sentinels_) {
      s->go_on();  // reads what arrived after the last decision
      s->end();
      s->master.reset();
      questions.push_back(s.get());
    }
    run_all(questions, wait, Duration{}, [&] {
      return std::ranges::any_of(sentinels_, [&](const auto& s) { return votes(*s) >= enough; });
    });
  }
  // Returns how many sentinels name the same master as this one.
  std::size_t votes(const Sentinel& one) const {
    const auto agrees = [&](const auto& s) { return one.master && s->master == one.master; };
    return static_cast<std::size_t>(std::ranges::count_if(sentinels_, agrees));
  }

  std::vector<std::unique_ptr<Sentinel>> sentinels_;
  Endpoint master_;
  std::optional<Deadline> named_at_;  // when the sentinels named master_
};

Result<Endpoint> SentinelLocator::find(std::string_view, Wait wait) {
  const Deadline now = Clock::now();
  if (named_at_ && now < later(*named_at_, sentinels_count_for)) return master_;
  named_at_.reset();
  const std::size_t enough = sentinels_.size() / 2 + 1;
  query(enough, wait);
  std::map<std::string, std::size_t> named;
  std::optional<Error> denied, last;
  for (const auto& s : sentinels_) {
    if (votes(*s) >= enough) {
      named_at_ = now;
      return master_ = *s->master;
    }
    if (s->master) {
      ++named[s->master->text()];
      continue;
    }
    last = s->outcome().error();
    if (!retryable(last->code)) denied = last;
  }
  if (denied) return fail(std::move(*denied));
  std::string said;
  for (const auto& [address, n] : named)
    add_part(said, fmt::format("{} of {} name {}", n, sentinels_.size(), address));
  return fail(Errc::unavailable, "no majority of the sentinels for a master: {}",
              named.empty() && last ? last->message : said);
}

void SentinelLocator::examine(Wait wait, std::vector<Finding>& out) {
  std::size_t agree = 0;
  std::string others;
  query(sentinels_.size() + 1, wait);  // ask all of them
  for (const auto& s : sentinels_) {
    if (s->master == master_) ++agree;
    else if (s->master) others += fmt::format("; {} names {}", s->at().text(), s->master->text());
    else others += "; " + s->outcome().error().message;
  }
  const bool few = sentinels_.size() < 3, all = agree == sentinels_.size();
  out.push_back(
      {all && !few ? Finding::Level::good : Finding::Level::warning, "sentinels",
       fmt::format("{} of {} name {}{}", agree, sentinels_.size(), master_.text(), others),
       few    ? "name at least three: a majority of fewer fails with the first"
       : !all ? "nothing is granted when no majority is left"
              : ""});
}

}  // namespace

std::unique_ptr<Locator> by_sentinels(Connection::Shared shared) {
  return std::make_unique<SentinelLocator>(shared);
}

}  // namespace dlock::redis
