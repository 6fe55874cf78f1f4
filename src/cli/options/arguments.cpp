// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
// CLI/CLI.hpp would include more than we need. Linking needs Config and Formatter, although we do
// not use them.
#include <algorithm>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Version.hpp>
#include <utility>
#include "cli/options/option_table.hpp"
#include "cli/options/suggestions.hpp"
#include "cli/options/verbs.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

// Ends the parse as an exception, because there is no other way. CLI11 does not catch it.
struct Refused {
  Error error;
};
[[noreturn]] void refuse(Error e) { throw Refused{std::move(e)}; }
[[noreturn]] void refuse(std::string message) { refuse({Errc::usage, std::move(message)}); }

bool has_command(Verb v) noexcept { return v == Verb::run || v == Verb::fence; }
bool has_operand(Verb v) noexcept {
  return !has_command(v) && v != Verb::bench && v != Verb::config;
}

bool needs_value(const Option& o) noexcept {
  return o.argument && o.argument[0] != '[' && o.argument[0] != '=';
}

// Reads the words before the first `--`. CLI11 finds the options and their values among these
// words. The Reader does not use CLI11's copies of the values: a value is a view into argv, namely
// the last bytes of the word that CLI11 read last.
//
// By itself CLI11 2.1 would do the following, which the Reader prevents:
//   * For `--name=` it would take the next word as the value. So the Reader adds, after the =, a
//     byte that argv cannot contain.
//   * If the last option lacks its value, it would throw. So the Reader adds a `--` after the last
//     word. If an option takes this `--` as its value, the value is missing.
//   * If the value of an option is optional ("[D]") or must follow an = ("=yes|no"), it would take
//     the next word as the value. So the Reader declares such an option to CLI11 as a switch
//     without a value, and takes the text after the = itself.
//   * It would read `-n-quiet` as `-n --quiet`, `-key` as `-k ey`, and `-5` as an operand. The
//     Reader refuses these words.
constexpr char mark = '\0';

class Reader {
 public:
  Reader(Options& to, int argc, char** argv, int left, Rows rows)
      : to_(to), argc_(argc), argv_(argv), left_(left) {
    app_.set_help_flag();  // none, because --help is a row of the table
    app_.allow_extras();   // operands, and unknown words: see other_words()
    for (const Option& o : option_table()) {
      if (!belongs(o, to.verb) || (rows == Rows::named && !named(o))) continue;
      const std::string names =
          o.letter ? fmt::format("-{},--{}", o.letter, o.name) : fmt::format("--{}", o.name);
      app_.add_option(names,
                      [this, &o](const CLI::results_t& read) { return found(o, read.front()); })
          ->expected(needs_value(o) ? 1 : 0)
          ->trigger_on_parse();  // call back in the order of argv, once for each occurrence
    }
  }

  void read() {
    rest_.emplace_back("--");
    for (int i = left_ - 1; i > 0; --i) {
      std::string& word = rest_.emplace_back(argv_[i]);
      const std::size_t equals = word.find('=');
      if (word.starts_with("--") && equals != word.npos) word.insert(equals + 1, 1, mark);
    }
    // CLI11 takes words from the back of this vector, so the size shows which word it reads.
    app_.parse(rest_);
    other_words();
  }

  void add_operand(std::string_view text, bool before_dashes) {
    const VerbInfo& verb = info(to_.verb);
    if (has_operand(to_.verb) && !to_.operand) {
      to_.operand = text;
      return;
    }
    if (has_command(to_.verb) && before_dashes) {
      const bool no_key = to_.verb == Verb::run && to_.keys.empty();
      const std::string_view hint = left_ == argc_ ? "put -- before the command"
                                    : no_key ? "the key goes after --key, the command after --"
                                             : "the command goes after --";
      refuse(fmt::format("{}: unexpected argument {}: {}", verb.name, quoted(text), hint));
    }
    refuse(fmt::format("{0}: unexpected argument {1}; usage: dlock {0} {2}", verb.name,
                       quoted(text), verb.usage));
  }

 private:
  // Returns whether one of the words may be this option. A value may look like an option; then
  // CLI11 gets a row that it does not need.
  bool named(const Option& o) const {
    return std::any_of(argv_ + 1, argv_ + left_, [&](std::string_view word) {
      if (word.starts_with("--")) return word.substr(2, word.find('=') - 2) == o.name;
      return o.letter && word.starts_with('-') && word.find(o.letter) != word.npos;
    });
  }

  // CLI11 calls this when it has found the option. `read`: the value as CLI11 has read it.
  bool found(const Option& o, std::string_view read) {
    other_words();  // first report errors in the words before this option
    const int at = left_ - static_cast<int>(rest_.size());
    if (at == left_) refuse(fmt::format("--{}: needs a value, {}", o.name, o.argument));
    const std::string_view word = argv_[at];
    // The position of the letter in a word such as -nvs.
    letter_ = std::exchange(at_, at) == at ? letter_ + 1 : 1;
    const bool marked = read.find(mark) != read.npos, has_value = marked || needs_value(o);
    const std::string_view value = word.substr(has_value ? word.size() + marked - read.size() : 0);
    // The word that was read last may be the value; then the option is the word before it.
    const bool is_value = needs_value(o) && value.size() == word.size();
    if (!is_value && letter_ == 1)
      if (auto error = long_with_one_dash(to_.verb, word)) refuse(std::move(*error));
    if (!needs_value(o) && word[1] != '-' && word.substr(letter_ + 1).starts_with('-'))
      refuse(unknown_letter(to_.verb, '-'));
    if (marked && !o.argument)
      refuse(fmt::format("--{}: {} is too much, it takes no value", o.name, quoted(value)));
    set(o, has_value ? value : std::string_view());
    return true;
  }

  void set(const Option& o, std::string_view value) {
    if (const auto done = o.set(to_, value); !done)
      refuse({done.error().code, fmt::format("--{}: {}", o.name, done.error().message)});
    if (o.choice == Choice::verbosity)  // the last of -q and -v decides
      std::erase_if(to_.values, [&](const Given& g) {
        return g.option != &o && g.option->choice == Choice::verbosity;
      });
    to_.values.push_back({&o, value, Source::flag});
  }

  // Handles the words that CLI11 has read since the last call, if they are not options of this
  // command.
  void other_words() {
    const std::size_t count = app_.remaining_size();
    if (others_ == count) return;
    const std::vector<std::string> all = app_.remaining();
    for (; others_ < count; ++others_) {
      const std::string_view word = all[others_];
      if (word.starts_with("--"))
        refuse(unknown_long(to_.verb, word.substr(2, word.find('=') - 2)));
      if (auto error = long_with_one_dash(to_.verb, word)) refuse(std::move(*error));
      if (word.size() > 1 && word[0] == '-') refuse(unknown_letter(to_.verb, word[1]));
      add_operand(*std::find(argv_ + 1, argv_ + left_, word), true);  // a view into argv
    }
  }

  Options& to_;
  int argc_;
  char** argv_;
  int left_;  // argv[left_] is the first `--`, or the end
  CLI::App app_;
  std::vector<std::string> rest_;  // words that CLI11 has not read yet, the next one last
  std::size_t others_ = 0;
  int at_ = 0;
  std::size_t letter_ = 0;
};

}  // namespace

Result<void> read_arguments(Options& to, int argc, char** argv, Rows rows) try {
  const int left = static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);
  Reader reader(to, argc, argv, left, rows);
  reader.read();
  if (left == argc) return {};
  char** const rest = argv + left + 1;
  if (has_command(to.verb)) to.command = rest;
  else
    for (char** word = rest; *word; ++word) reader.add_operand(*word, false);
  return {};
} catch (const Refused& r) { return fail(r.error); }

std::string_view cli11_version() noexcept { return CLI11_VERSION; }

}  // namespace dlock::cli
