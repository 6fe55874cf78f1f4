# SPDX-License-Identifier: Apache-2.0
# Writes a header with the version and the commit of a source tree; touches it only for a change.
#   cmake -DSOURCE=DIR -DVERSION=X.Y.Z -DHEADER=FILE -P version.cmake
# The commit is empty where the tree is no repository of its own, git is missing or does not trust
# the tree; it ends in "-dirty" when a file that git knows was changed.
cmake_minimum_required(VERSION 3.25)
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --match=
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed STREQUAL "0")
    set(commit "")
  endif()
endif()
set(out "// Made by scripts/cmake/version.cmake.
#pragma once
#define DLOCK_VERSION \"${VERSION}\"
#define DLOCK_COMMIT \"${commit}\"
")
file(CONFIGURE OUTPUT ${HEADER} CONTENT "@out@" @ONLY)
