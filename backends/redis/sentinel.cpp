// SPDX-License-Identifier: Apache-2.0
#include "redis/sentinel.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "redis/record.hpp"
#include "redis/server_error.hpp"

namespace dlock::redis {

SentinelLocator::SentinelLocator(const Options& options, const TlsContext* tls, std::uint64_t& requests)
    : options_(options), tls_(tls), requests_(requests) {
  for (const Endpoint& at : options.servers) sentinels_.push_back({at, nullptr, {}});
}

Result<Reply> SentinelLocator::exchange(Connection& c, std::initializer_list<std::string_view> command, Wait wait) {
  c.add(command);
  ++requests_;
  if (auto ok = c.flush(wait); !ok) return fail(std::move(ok.error()));
  auto reply = c.receive(wait);
  if (!reply) return fail(std::move(reply.error()));
  if (!*reply) return fail(Errc::unavailable, "no answer in time");
  return std::move(**reply);
}

Result<Endpoint> SentinelLocator::ask_anew(Sentinel& s, Wait wait) {
  if (!s.connection) {
    auto made = Connection::open(s.at, tls_, options_.op_timeout, wait);
    if (!made) return fail(std::move(made.error()));
    s.connection = std::move(*made);
  }
  const auto question = {std::string_view{"SENTINEL"}, std::string_view{"GET-MASTER-ADDR-BY-NAME"},
                         std::string_view{options_.master}};
  auto reply = exchange(*s.connection, question, wait);
  if (reply && reply->text.starts_with("NOAUTH") &&
      !options_.password.empty()) {  // sentinels often have no password of their own
    auto login = options_.user.empty() ? exchange(*s.connection, {"AUTH", options_.password}, wait)
                                       : exchange(*s.connection, {"AUTH", options_.user, options_.password}, wait);
    if (login && login->is(Reply::Type::error))
      return fail(Errc::denied, fmt::format("sentinel {} refuses user or password", s.at.text()));
    if (login) reply = exchange(*s.connection, question, wait);
  }
  if (!reply) return fail(reply.error().code, fmt::format("sentinel {}: {}", s.at.text(), reply.error().message));
  if (reply->is(Reply::Type::error)) return fail(as_error("ask for the master", s.at.text(), reply->text));
  if (reply->is(Reply::Type::nil))
    return fail(Errc::usage, fmt::format("sentinel {} knows no master named {}", s.at.text(), options_.master));
  const auto port = reply->number_at(1);
  if (reply->text_at(0).empty() || !port || *port < 1 || *port > 65535)
    return fail(Errc::protocol, fmt::format("sentinel {}: the answer makes no sense", s.at.text()));
  return Endpoint{std::string{reply->text_at(0)}, static_cast<std::uint16_t>(*port), {}};
}

Result<Endpoint> SentinelLocator::ask(Sentinel& s, Wait wait) {
  const bool used = s.connection != nullptr;
  auto answer = ask_anew(s, wait);
  if (answer) return answer;
  s.connection.reset();
  if (used && answer.error().code == Errc::unavailable && !wait.over()) answer = ask_anew(s, wait);
  if (!answer) s.connection.reset();
  return answer;
}

Result<Endpoint> SentinelLocator::find(std::string_view, Wait wait) {
  const Deadline now = Clock::now();
  if (asked_ && now < later(*asked_, fresh)) return master_;
  const std::size_t enough = sentinels_.size() / 2 + 1;
  std::map<std::string, std::size_t> votes;
  std::optional<Error> denied, last;
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    // One that is silent must leave time for the others.
    const Deadline start = Clock::now();
    const Wait own{start + (wait.until - start) / static_cast<long>(sentinels_.size() - i), wait.interrupt};
    auto answer = ask(sentinels_[i], own);
    if (!answer) {
      if (!retryable(answer.error().code)) denied = answer.error();
      last = std::move(answer.error());
      continue;
    }
    if (++votes[answer->text()] < enough) continue;
    master_ = std::move(*answer);
    asked_ = now;
    // Those that did not answer come last from now on.
    std::stable_partition(sentinels_.begin(), sentinels_.end(), [](const Sentinel& s) { return s.connection != nullptr; });
    return master_;
  }
  asked_.reset();
  if (denied) return fail(std::move(*denied));
  std::string said;
  for (const auto& [address, n] : votes)
    said += fmt::format("{}{} of {} name {}", said.empty() ? "" : ", ", n, sentinels_.size(), address);
  return fail(Errc::unavailable,
              fmt::format("no majority of the sentinels for a master: {}", votes.empty() && last ? last->message : said));
}

Result<std::vector<Endpoint>> SentinelLocator::everyone(Wait wait) {
  auto master = find({}, wait);
  if (!master) return fail(std::move(master.error()));
  return std::vector{std::move(*master)};
}

void SentinelLocator::examine(Wait wait, std::vector<Finding>& out) {
  std::size_t agree = 0;
  std::string others;
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    const Deadline start = Clock::now();
    const Wait own{start + (wait.until - start) / static_cast<long>(sentinels_.size() - i), wait.interrupt};
    const auto answer = ask(sentinels_[i], own);
    if (answer && *answer == master_) ++agree;
    else others += fmt::format("; {}", answer ? sentinels_[i].at.text() + " names " + answer->text() : answer.error().message);
  }
  const bool few = sentinels_.size() < 3;
  out.push_back({agree == sentinels_.size() && !few ? Finding::Level::good : Finding::Level::warning, "sentinels",
                 fmt::format("{} of {} name {}{}", agree, sentinels_.size(), master_.text(), others),
                 few                         ? "name at least three: a majority of fewer fails with the first"
                 : agree < sentinels_.size() ? "nothing is granted when no majority is left"
                                             : ""});
}

}  // namespace dlock::redis
