// SPDX-License-Identifier: Apache-2.0
// Command lines, parsed as dlock does it; the words last as long as the object.
#pragma once
#include <string>
#include <utility>
#include <vector>
#include "cli/options/option_table.hpp"

namespace dlock::test {

class Words {
 public:
  Words(cli::Verb verb, std::vector<std::string> words) : verb_(verb), words_(std::move(words)) {
    words_.insert(words_.begin(), "dlock");
    for (std::string& w : words_) argv_.push_back(w.data());
    argv_.push_back(nullptr);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  // With environment, configuration and rules.
  Result<cli::Options> parse() {
    cli::Options o;
    o.verb = verb_;
    const auto done = cli::parse(o, static_cast<int>(words_.size()), argv_.data());
    if (!done) return fail(done.error());
    return o;
  }

  // The command line alone.
  Result<cli::Options> read(cli::Rows rows) {
    cli::Options o;
    o.verb = verb_;
    const auto done = cli::read_arguments(o, static_cast<int>(words_.size()), argv_.data(), rows);
    if (!done) return fail(done.error());
    return o;
  }

 private:
  cli::Verb verb_;
  std::vector<std::string> words_;
  std::vector<char*> argv_;
};

// "key=k wait=3m operand=x | a b" or the error.
inline std::string text_of(const Result<cli::Options>& o) {
  if (!o) return "error: " + o.error().message;
  std::string text;
  for (const cli::Given& g : o->values)
    text += std::string(g.option->name) + "=" + std::string(g.value) + " ";
  if (o->operand) text += "operand=" + std::string(*o->operand) + " ";
  if (o->command) text += "|";
  for (char* const* word = o->command; word && *word; ++word)
    text += " <" + std::string(*word) + ">";
  return text;
}

}  // namespace dlock::test
