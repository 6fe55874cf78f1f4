// SPDX-License-Identifier: Apache-2.0
// The items of URLs: what the manual says, and the rows of each store.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>
#include "cli/options/verbs.hpp"
#include "store/factory.hpp"

using namespace dlock;

namespace {

// With one space between words and a bar between paragraphs.
std::string page_of(std::string_view family) {
  std::string text;
  for (const cli::ManualPage& p : cli::manual_pages())
    if (p.name == family) text = p.text;
  std::replace(text.begin(), text.end(), '|', '/');
  text = std::regex_replace(text, std::regex{"\n\n+"}, "|");
  return std::regex_replace(text, std::regex{"[ \n]+"}, " ");
}

std::vector<std::smatch> matches(const std::string& text, const char* pattern) {
  const std::regex wanted{pattern};
  return {std::sregex_iterator{text.begin(), text.end(), wanted}, std::sregex_iterator{}};
}

std::set<std::string> words_in(std::string_view text, const char* separators) {
  std::set<std::string> words{""};
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    words.emplace(text.substr(at, end - at));
    at = end;
  }
  return words;
}

const UrlItem* row_of(const BackendFactory& factory, const std::string& name) {
  for (const UrlItem& row : factory.items)
    if (row.covers(name)) return &row;
  return nullptr;
}

}  // namespace

TEST_CASE("the pages of the manual and the rows have the same items of URLs") {
  const std::set<std::string> of_all{"prefix",    "recipe",        "short_ttl",
                                     "auth_file", "password_file", "sentinel_password_file"};
  for (const BackendFactory& f : backends()) {
    const std::string page = page_of(f.family);
    std::set<std::string> recipes{""}, named;
    for (const Traits& traits : f.recipes) recipes.emplace(traits.recipe);
    const auto name = [&](const std::string& item) {
      INFO(item);
      CHECK((of_all.contains(item) || row_of(f, item)));
      named.insert(item);
    };
    // `?NAME=VALUE' anywhere is an item; `NAME=VALUE' may be one
    for (const auto& m : matches(page, "[?&]([a-z_]+(\\.[A-Z_]+)?)=")) name(m.str(1));
    for (const auto& m : matches(page, "`([a-z_]+)=")) named.insert(m.str(1));
    // `NAME', `NAME=VALUE/VALUE' (RECIPE, RECIPE), `NAME, NAME' in the list
    const auto list = matches(page, "Items of the URL: ([^|]*)");
    REQUIRE(list.size() == 1);
    const std::string items = list.front().str(1);
    for (const auto& m : matches(items, "`([^']*)'( \\(([^)]*)\\))?")) {
      INFO(m.str());
      for (const std::string& word : words_in(m.str(1), ", ?")) {
        const std::size_t equals = word.find('=');
        const std::string item = word.substr(0, equals);
        if (!item.empty()) name(item);
        const UrlItem* const row = row_of(f, item);
        if (!row) continue;
        if (equals != word.npos && word.find('/') != word.npos)
          CHECK(words_in(word.substr(equals + 1), "/") == words_in(row->range, " "));
        const auto note = words_in(m.str(3), ", ");
        if (!note.contains("see") && note.size() > 1)
          if (std::includes(recipes.begin(), recipes.end(), note.begin(), note.end()))
            CHECK(words_in(row->recipes, " ") == note);
      }
    }
    for (const UrlItem& row : f.items)
      for (const std::string& item : words_in(row.names, " ")) {
        INFO(f.family << ": " << item);
        CHECK((item.empty() || named.contains(item + (item.ends_with('.') ? "COLUMN" : ""))));
      }
  }
}

TEST_CASE("the manual names the usual values of items that the rows have") {
  struct Row {
    std::string_view family;
    const char* item;
    std::string sentence;  // $: the value
  };
  const Row rows[] = {
      {"redis", "restart_grace", "for $ after the server's start, or for D with ?restart_grace=D."},
      {"mysql", "clock_skew", "`?clock_skew=' ($)"},
      {"postgresql", "port", "`&port=' if it is not $."},
      {"postgresql", "key", "$ pg_advisory_lock(hashtext('K')), the default"},
  };
  for (const BackendFactory& f : backends())
    for (const Row& row : rows) {
      if (row.family != f.family) continue;
      const std::string usual{row_of(f, row.item)->usual};
      const std::string value = std::regex_replace(usual, std::regex{"^([0-9]+)s$"}, "$1 s");
      INFO(row.item);
      std::string sentence = row.sentence;
      sentence.replace(sentence.find('$'), 1, value);
      CHECK(page_of(f.family).find(sentence) != std::string::npos);
    }
}
