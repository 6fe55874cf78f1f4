// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "pure/message.hpp"
#include "store/factory.hpp"

using namespace dlock;
using namespace dlock::test;
using Catch::Contains;

// A table of this test's own instead of that of backends/.
namespace {

constexpr Traits traits(std::string_view family, std::string_view recipe) {
  return {family, recipe, Liveness::lease, true, true, true, true, true, true, true, ""};
}
constexpr Traits apple_recipes[] = {traits("apple", "whole"), traits("apple", "sliced")};
constexpr Traits pear_recipes[] = {traits("pear", "only")};
constexpr std::string_view apple_schemes[] = {"apple", "apple+tls"}, pear_schemes[] = {"pear"},
                           plum_schemes[] = {"plum", "prune"};
constexpr UrlItem apple_items[] = {{"db"}, {"where."}};

Result<Opener> no_opener(const Url&, const Traits&, const Settings&) {
  return fail(Errc::internal, "not opened here");
}

constexpr BackendFactory factories[] = {
    {"apple", apple_schemes, apple_recipes, apple_items, no_opener},
    {"pear", pear_schemes, pear_recipes, {}, no_opener}};
constexpr AbsentBackend absent[] = {{"plum", "WITH_PLUM", plum_schemes}};

Result<Choice> pick(std::string_view url, std::string_view recipe = "") {
  return choose(Url::parse(url).value(), recipe);
}

}  // namespace

std::span<const BackendFactory> dlock::backends() noexcept { return factories; }
std::span<const AbsentBackend> dlock::absent_backends() noexcept { return absent; }

TEST_CASE("the URL chooses backend and recipe") {
  CHECK(pick("apple://h")->factory == &factories[0]);
  CHECK(pick("apple://h")->traits == &apple_recipes[0]);
  CHECK(pick("apple+tls://h?recipe=sliced")->traits == &apple_recipes[1]);
  CHECK(pick("apple://h?recipe=sliced", "whole")->traits == &apple_recipes[0]);
  CHECK(pick("apple://h?recipe=nonsense", "sliced")->traits == &apple_recipes[1]);
  CHECK(pick("PEAR:?prefix=")->factory == &factories[1]);
  CHECK(pick("apple://h?db=1&where.SCHED=x&prefix=a&recipe=whole"));
}

TEST_CASE("a recipe is asked for nothing that it cannot do, and the option is named") {
  const auto why = [](const Traits& t, auto change) {
    Request r{.key = Key::parse("k").value(),
              .owner = {},
              .ttl = std::chrono::seconds{30},
              .identity = {}};
    change(r);
    const auto can = can_serve(t, r);
    if (can) return std::string{};
    CHECK(can.error().code == Errc::usage);
    return can.error().message;
  };
  const Traits all = traits("apple", "whole");
  const Traits none{"apple", "core", Liveness::process, false, false, false, false, false, false,
                    true,    ""};
  const auto permit = [](Request& r) { r.mode = Mode::permit; };
  const auto shared = [](Request& r) { r.mode = Mode::shared; };
  const auto delayed = [](Request& r) { r.lock_delay = std::chrono::seconds{1}; };
  const auto detached = [](Request& r) { r.attached = false; };
  const auto endless = [](Request& r) { r.ttl = {}; };
  for (const Traits& t : {all, none}) CHECK(why(t, [](Request&) {}).empty());
  CHECK(why(all, permit).empty());
  CHECK(why(all, shared).empty());
  CHECK(why(all, delayed).empty());
  CHECK(why(all, detached).empty());
  CHECK(why(none, shared) == "--shared: recipe core of apple has no shared locks");
  CHECK(why(none, permit) == "--limit: recipe core of apple has no permits");
  CHECK(why(none, delayed) == "--lock-delay: recipe core of apple has no lock-delay");
  CHECK(why(none, detached) ==
        "--recipe: recipe core of apple has no lock that outlives its process");
  CHECK(why(none, endless).empty());  // it ends with the process
  CHECK(why(all, endless) == "--ttl: must be longer than 0");
  CHECK(why(all, [](Request& r) { r.mode = Mode::permit, r.limit = 0; }) ==
        "--limit: 0 allows no holder; at least 1 is allowed");
}

TEST_CASE("what does not exist is refused with what does") {
  const auto message = [](std::string_view url, std::string_view recipe = "") {
    const auto r = pick(url, recipe);
    REQUIRE_FALSE(r);
    CHECK(is_good_message(r.error()));
    CHECK_THAT(r.error().message, !Contains("hunter2"));
    return r.error().message;
  };
  CHECK(message("cherry://u:hunter2@h") ==
        "backend URL 'cherry://u:***@h': there is no scheme 'cherry'; allowed are apple, "
        "apple+tls, pear");
  CHECK(message("prune://u:hunter2@h") ==
        "backend URL 'prune://u:***@h': this dlock was built without plum; build it with "
        "-DWITH_PLUM=ON");
  CHECK(message("root:hunter2@h") ==
        "backend URL 'root:***@h': there is no scheme 'root'; allowed are apple, apple+tls, pear");
  CHECK_THAT(message("apple://h?recipe=only"),
             Contains("apple has no recipe 'only'; allowed are whole, sliced"));
  CHECK_THAT(message("apple://h", "peeled"),
             Contains("apple has no recipe 'peeled'; allowed are whole, sliced"));
  CHECK_THAT(message("apple://h?recipe="), Contains("apple has no recipe ''"));
  CHECK_THAT(
      message("apple://h?dbx=1"),
      Contains("apple has no item 'dbx'; allowed are recipe, prefix, short_ttl, db, where.NAME"));
  CHECK_THAT(message("apple://h?where.=1"), Contains("no item 'where.'"));
  CHECK_THAT(message("apple://h?DB=1"), Contains("no item 'DB'"));
  CHECK_THAT(message("pear:?db=1"),
             Contains("pear has no item 'db'; allowed are recipe, prefix, short_ttl"));
}
