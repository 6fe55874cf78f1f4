// SPDX-License-Identifier: Apache-2.0
#include "support/fake_faults.hpp"
#include <charconv>
#include "core/duration.hpp"

namespace dlock::fake {
namespace {

tl::unexpected<Error> refuse(const std::string& name, std::string_view value, const char* allowed) {
  return fail(Errc::usage, "fake: " + name + "=" + std::string(value) + ": allowed: " + allowed);
}

}  // namespace

Result<Faults> Faults::parse(const Url& url) {
  Faults f;
  for (const auto& item : url.items) {
    const auto &name = item.first, &value = item.second;  // clang 14's lambdas hold no bindings
    const auto duration = [&](Duration& to) -> Result<void> {
      const auto d = parse_duration(value);
      if (!d) return fail(d.error());
      to = *d;
      return {};
    };
    const auto number = [&](std::optional<std::uint64_t>& to) -> Result<void> {
      std::uint64_t n = 0;
      const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), n);
      if (bad != std::errc{} || end != value.data() + value.size())
        return refuse(name, value, "a whole number");
      to = n;
      return {};
    };
    Result<void> good;
    if (name == "grant_after") good = duration(f.grant_after);
    else if (name == "drip") good = duration(f.drip);
    else if (name == "patience") good = duration(f.patience);
    else if (name == "hang_after") good = number(f.hang_after);
    else if (name == "hang_wait") good = number(f.hang_wait);
    else if (name == "throw_after") good = number(f.throw_after);
    else if (name == "lost_after") good = number(f.lost_after);
    else if (name == "renew_fails_after") good = number(f.renew_fails_after);
    else if (name == "hang_release") {
      if (value != "0" && value != "1") return refuse(name, value, "0, 1");
      f.hang_release = value == "1";
    } else if (name == "broken") {
      if (value != "0" && value != "1") return refuse(name, value, "0, 1");
      f.broken = value == "1";
    } else if (name == "lose") {
      if (value == "acquire") f.lose = RequestKind::acquire;
      else if (value == "renew") f.lose = RequestKind::renew;
      else if (value == "release") f.lose = RequestKind::release;
      else if (value == "note") f.lose = RequestKind::note;
      else return refuse(name, value, "acquire, renew, release");
    } else if (name == "fail_open") {
      if (value == "denied") f.fail_open = Errc::denied;
      else if (value == "unavailable") f.fail_open = Errc::unavailable;
      else if (value == "cannot_create") f.fail_open = Errc::cannot_create;
      else return refuse(name, value, "denied, unavailable, cannot_create");
    }
    if (!good) return fail(good.error());
  }
  return f;
}

void sleep_for(Duration d) {
  for (const Deadline end = later(Clock::now(), d); Clock::now() < end;) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now());
    const long slice = left.count() < 10'000'000 ? static_cast<long>(left.count()) : 10'000'000;
    const timespec t{0, slice > 0 ? slice : 0};
    ::nanosleep(&t, nullptr);
  }
}

void hang() {
  for (;;) sleep_for(std::chrono::milliseconds{50});
}

}  // namespace dlock::fake
