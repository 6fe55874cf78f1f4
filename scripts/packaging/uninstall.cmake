# SPDX-License-Identifier: Apache-2.0
# Removes what `cmake --install` has written, by its list. Directories stay: others may use them.
cmake_minimum_required(VERSION 3.25)
if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "nothing was installed from this build: there is no ${MANIFEST}")
endif()
file(STRINGS ${MANIFEST} files)
foreach(file IN LISTS files)
  if(EXISTS $ENV{DESTDIR}${file} OR IS_SYMLINK $ENV{DESTDIR}${file})
    file(REMOVE $ENV{DESTDIR}${file})
    message(STATUS "removed $ENV{DESTDIR}${file}")
  endif()
endforeach()
