// SPDX-License-Identifier: Apache-2.0
// What a user sees of a wait: nothing for 500 ms, then one line. On a terminal that line is redrawn
// each second; elsewhere it comes again at 1 min, 10 min and 1 h only.
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
  // In less than `width` columns, or it would wrap and could not be redrawn. It loses words alone:
  // what the user knows by himself, then the position, then the last words of WHY.
  std::string fitted(std::size_t width) const;
};

// In at most `longest` bytes, which is never fewer columns: of a longer text the first words and
// "...". Only a first word that is too long is cut, between two characters.
std::string shortened(std::string_view text, std::size_t longest);

class WaitLine {
 public:
  using Write = std::function<void(std::string)>;
  enum class Style { redrawn, repeated };  // on a terminal, elsewhere
  // `raw` writes a text to stderr unchanged, `say` a message.
  WaitLine(Style, Deadline since, Write raw, Write say);
  ~WaitLine() { clear(); }
  WaitLine(const WaitLine&) = delete;
  WaitLine& operator=(const WaitLine&) = delete;

  bool due(Deadline now) const noexcept { return now >= next_; }
  void mark_shown(Deadline now);  // when it was due
  void show(const WaitText&);
  void clear();  // before other output
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
