# SPDX-License-Identifier: Apache-2.0
# dlock_embed_lua(HEADER NAMESPACE NAME=FILE[+FILE...] ...) writes a header with one constant per
# script: the files joined, without the lines that are comments, and the SHA-1 for EVALSHA. A
# changed .lua reruns CMake.
function(dlock_embed_lua header namespace)
  set(out "// Made by backends/redis/embed.cmake.\n#pragma once\n#include \"redis/wire/command.hpp\"\n\nnamespace ${namespace} {\n\n")
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([a-z_]+)=(.+)$" matched "${entry}")
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "+" ";" files "${CMAKE_MATCH_2}")
    set(text "")
    foreach(file IN LISTS files)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      file(READ ${file} part)
      string(REGEX REPLACE "\n *--[^\n]*" "" part "\n${part}")
      string(APPEND text "${part}")
    endforeach()
    string(SHA1 sha "${text}")
    string(APPEND out "inline constexpr redis::Script ${name}{R\"lua(${text})lua\",\n    \"${sha}\"};\n\n")
  endforeach()
  string(APPEND out "}  // namespace ${namespace}\n")
  file(CONFIGURE OUTPUT ${header} CONTENT "@out@" @ONLY)  # writes the file only when something changed
endfunction()
