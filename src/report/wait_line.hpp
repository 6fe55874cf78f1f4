// SPDX-License-Identifier: Apache-2.0
// What a user sees of a wait: nothing for 500 ms, then one line. A terminal redraws the line each
// second; other outputs get it again after 1 min, 10 min and 1 h. One thread uses it.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include "core/clock.hpp"

namespace dlock::run {

inline constexpr Duration repeat_times[] = {std::chrono::minutes{1}, std::chrono::minutes{10},
                                            std::chrono::hours{1}};

// The parts of "WHY; waiting UNTIL POSITION".
struct WaitText {
  std::string why;
  std::string until{}, position{};  // "up to 1h", "(position 2)"; may be empty

  std::string whole() const;
  // Returns the text in fewer than `width` columns, because a line that wraps could not be redrawn.
  // It drops whole words: first UNTIL, which the user knows anyway, then POSITION, then the last
  // words of WHY.
  std::string fitted(std::size_t width) const;
};

// Shortens a text to its first words and "...", at most `longest` bytes (a text never has more
// columns than bytes). If even the first word is too long, it is cut between two characters.
std::string shortened(std::string_view text, std::size_t longest);

class WaitLine {
 public:
  using Write = std::function<void(std::string)>;
  enum class Style { redrawn, repeated };  // redrawn: on a terminal; repeated: elsewhere
  // `raw` writes a text to stderr unchanged. `say` writes a message.
  WaitLine(Style, Deadline since, Write raw, Write say);
  ~WaitLine() { clear(); }
  WaitLine(const WaitLine&) = delete;
  WaitLine& operator=(const WaitLine&) = delete;

  bool due(Deadline now) const noexcept { return now >= next_; }
  void mark_shown(Deadline now);  // computes when the line is due again
  void show(const WaitText&);
  void clear();  // call it before other output
  bool redrawn() const noexcept { return redrawn_; }

 private:
  const bool redrawn_;
  const Write raw_, say_;
  const Deadline since_;
  Deadline next_;
  int lines_ = 0;
  bool drawn_ = false;
};

}  // namespace dlock::run
