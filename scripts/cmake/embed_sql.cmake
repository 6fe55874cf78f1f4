# SPDX-License-Identifier: Apache-2.0
# dlock_embed_sql(HEADER NAMESPACE FILE...) writes a header with one string constant per file, with
# the name of the file. A changed .sql reruns CMake.
function(dlock_embed_sql header namespace)
  set(out "// Made by scripts/cmake/embed_sql.cmake.\n#pragma once\n#include <string_view>\n\n")
  string(APPEND out "namespace ${namespace} {\n\n")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    cmake_path(GET file STEM name)
    file(READ ${file} text)
    string(REGEX REPLACE "^-- SPDX[^\n]*\n" "" text "${text}")
    string(STRIP "${text}" text)
    string(APPEND out "inline constexpr std::string_view ${name} = R\"sql(${text})sql\";\n\n")
  endforeach()
  string(APPEND out "}  // namespace ${namespace}\n")
  # Writes the file only when something changed.
  file(CONFIGURE OUTPUT ${header} CONTENT "@out@" @ONLY)
endfunction()
