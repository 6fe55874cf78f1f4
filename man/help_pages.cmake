# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source to the file ${TO}. It has the text of ${FROM}/dlock-PAGE.7 for each PAGE of
# ${PAGES}. ${MANDOC} is the program mandoc(1).
cmake_minimum_required(VERSION 3.25)
separate_arguments(PAGES)
string(ASCII 8 backspace)
set(source "// SPDX-License-Identifier: Apache-2.0
#include \"cli/options/verbs.hpp\"

namespace dlock::cli {

std::span<const ManualPage> manual_pages() noexcept {
  static constexpr ManualPage table[] = {
")
foreach(page IN LISTS PAGES)
  execute_process(COMMAND ${MANDOC} -T ascii -I os=dlock ${FROM}/dlock-${page}.7 OUTPUT_VARIABLE text
    COMMAND_ERROR_IS_FATAL ANY)
  # bold and underlined letters are overstruck
  string(REGEX REPLACE ".${backspace}" "" text "${text}")
  string(APPEND source "      {\"${page}\", R\"PAGE(${text})PAGE\"},\n")
endforeach()
string(APPEND source "  };
  return table;
}

}  // namespace dlock::cli
")
file(WRITE ${TO} "${source}")
